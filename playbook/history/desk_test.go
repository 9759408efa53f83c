package history_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// desk writes a log as a curator does: what reflections and people ask for is granted or turned down, against the
// bullets as they are. Every text is one request's alone, unless somebody says it again.
type desk struct {
	rapid.TB
	deltas []*playbook.Delta
	p      playbook.Playbook
	states []*playbook.Playbook // by version

	minted   uint64
	requests int
	sources  []string
	ruled    map[playbook.BulletID]bool // that began as a rule's; a merge of one whose words were edited is left out

	stale bool // restores recount rules, too

	d     *playbook.Delta // under way
	draft *playbook.Playbook
}

func newDesk(t rapid.TB) *desk {
	return &desk{TB: t, states: []*playbook.Playbook{new(playbook.Playbook)}, sources: []string{"a", "b", "c"}, ruled: map[playbook.BulletID]bool{}}
}

func (k *desk) log(fn func(*playbook.Delta) error) error {
	for _, d := range k.deltas {
		if err := fn(d); err != nil {
			return err
		}
	}
	return nil
}

func (k *desk) newest() uint64 { return uint64(len(k.deltas)) }

// begin begins a delta that settles so many reflections, or, with an author, an edit.
func (k *desk) begin(author string, covers ...playbook.Cover) {
	k.d, k.draft = &playbook.Delta{Author: author, Covers: covers}, k.p.Clone()
}

func (k *desk) edit(author string) {
	k.requests++
	k.begin(author, playbook.Cover{ID: fmt.Sprint("edit", k.requests), Seq: uint64(k.requests)})
	k.d.Reason = "because"
}

// reflection is a cover with evidence.
func (k *desk) reflection(source, session string) playbook.Cover {
	k.requests++
	return playbook.Cover{ID: fmt.Sprint("r", k.requests), Seq: uint64(k.requests), Evidence: &playbook.Evidence{
		Execution: fmt.Sprintf("%d-abcdef", k.requests), Source: source, Session: source + session, Outcome: "success",
	}}
}

// do drafts an operation, and reports whether it was granted.
func (k *desk) do(op playbook.Op) bool {
	same := func() playbook.BulletID {
		if b := k.draft.Same(op.Content); b != nil && op.Content != "" && op.Rule == nil && b.ID != op.Bullet && !slices.Contains(op.Sources, b.ID) {
			return b.ID
		}
		return ""
	}()
	reject := func(reason string) bool {
		k.d.Rejected = append(k.d.Rejected, playbook.Rejection{Op: op, Reason: reason, Same: same})
		return false
	}
	there := k.draft.Bullet(op.Bullet) != nil
	switch {
	case same != "" && op.Kind == playbook.Add:
		return reject("said already")
	case same != "":
		same = ""
		return reject("another says that")
	case !there && op.Kind != playbook.Add && op.Kind != playbook.Put:
		return reject("unknown")
	case there && op.Kind == playbook.Remove && k.draft.Bullet(op.Bullet).Pinned:
		return reject("pinned")
	case op.Kind == playbook.Merge:
		op.Sources = slices.DeleteFunc(op.Sources, func(id playbook.BulletID) bool {
			b := k.draft.Bullet(id)
			return id == op.Bullet || b == nil || k.ruled[id] || b.Pinned
		})
		if len(op.Sources) == 0 || k.ruled[op.Bullet] {
			return reject("nothing to merge")
		}
	case op.Kind == playbook.Trial:
		// Outcomes are of tasks begun before this delta, and of what the bullet said then.
		was := k.p.Bullet(op.Bullet)
		if was == nil || was.TheCase().Number != k.draft.Bullet(op.Bullet).TheCase().Number {
			return reject("of another case")
		}
		op.Case = was.TheCase().Number
		if op.Reason = was.Content; k.ruled[op.Bullet] && was.Rule != nil {
			op.Reason = "rule " + was.Rule.Key
		}
	case op.Kind == playbook.Second:
		if op.Reason = k.draft.Bullet(op.Bullet).Content; k.draft.Bullet(op.Bullet).Rule != nil {
			return reject("a rule counts it")
		}
	}
	if op.Kind == playbook.Add {
		k.minted++
		op.Section = "others"
		op.Bullet = playbook.MintID(op.Section, k.minted)
		k.ruled[op.Bullet] = op.Rule != nil
	}
	k.emit(op)
	return true
}

func (k *desk) emit(op playbook.Op) {
	k.d.Ops = append(k.d.Ops, op)
	if _, err := k.draft.Apply(&playbook.Delta{Version: k.draft.Version() + 1, Ops: []playbook.Op{op}, Covers: k.d.Covers}); err != nil {
		k.Fatal(err)
	}
}

// sight counts a sighting of a rule.
func (k *desk) sight(key string, support ...int) {
	b := k.draft.ByRule(key)
	if b == nil {
		k.do(playbook.Op{Kind: playbook.Add, Content: "rule " + key, Rule: &playbook.Rule{Key: key, Text: "rule " + key}, Status: playbook.Candidate, Support: support[:1]})
		b = k.draft.ByRule(key)
	}
	k.emit(playbook.Op{Kind: playbook.Tag, Bullet: b.ID, Helpful: len(support), Support: support})
}

// recount brings what rules say in line with their counts: nobody asked for that.
func (k *desk) recount() {
	for _, key := range []string{"x", "y"} {
		if b := k.draft.ByRule(key); b != nil && b.Content != fmt.Sprintf("rule %s: %d", key, b.Helpful) {
			k.emit(playbook.Op{Kind: playbook.Update, Bullet: b.ID, Content: fmt.Sprintf("rule %s: %d", key, b.Helpful), Rule: b.Rule})
		}
	}
}

// commit writes the delta, or as many parts as wanted.
func (k *desk) commit(parts int) {
	d := k.d
	d.Time = time.Unix(int64(k.newest()), 0)
	if parts < 2 || len(d.Ops) == 0 {
		k.append(d)
		return
	}
	ops := d.Ops
	d.Ops, d.Change = nil, fmt.Sprint("change", k.newest())
	for i := range ops {
		if d.Author != history.Curator { // else they are into the covers of the last
			ops[i].Support = nil
		}
	}
	cut := len(ops) / 2
	for _, some := range [][]playbook.Op{ops[:cut], ops[cut:]} {
		k.append(&playbook.Delta{Author: d.Author, Reason: d.Reason, Time: d.Time, Change: d.Change, More: true, Ops: some})
	}
	k.append(d)
}

// abandon begins a change of several parts that does not come to its end.
func (k *desk) abandon() {
	k.append(&playbook.Delta{Author: "ann", Change: fmt.Sprint("change", k.newest()), More: true, Time: time.Unix(int64(k.newest()), 0), Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "misc-77777", Section: "others", Content: "never"},
		{Kind: playbook.Remove, Bullet: playbook.MintID("others", 1)},
	}})
}

func (k *desk) append(d *playbook.Delta) {
	d.Version = k.newest() + 1
	if d.Version > 1 {
		d.PrevChain = []byte{1}
	}
	if err := d.Validate(); err != nil {
		k.Fatalf("wrote a delta that no log takes: %v", err)
	}
	k.deltas = append(k.deltas, d)
	if _, err := k.p.Apply(d); err != nil {
		k.Fatal(err)
	}
	k.states = append(k.states, k.p.Clone())
}

// forget forgets as the Curator does, and reports whether there was anything to forget.
func (k *desk) forget(s playbook.Selector, parts int) bool {
	f := k.without(s)
	if f.Matched == 0 {
		return false
	}
	k.edit("bob")
	k.d.Forgets = &s
	for _, op := range history.Towards(&k.p, f.Playbook) {
		op.Support = []int{0}
		k.emit(op)
	}
	k.recount()
	k.commit(parts)
	return true
}

func (k *desk) without(s playbook.Selector) *history.Forgetting {
	f, err := history.Without(k.log, s)
	if err != nil {
		k.Fatal(err)
	}
	return f
}

func (k *desk) restore(version uint64, parts int) {
	then := k.at(version)
	k.edit("bob")
	k.d.Restores = &version
	for _, op := range history.Towards(&k.p, then) {
		op.Support = []int{0}
		k.emit(op)
	}
	if k.stale { // what the change before had no room for
		k.recount()
	}
	k.commit(parts)
}

func (k *desk) at(version uint64) *playbook.Playbook {
	p, newest, err := history.At(k.log, version)
	if err != nil || newest != k.newest() || p.Version() != version {
		k.Fatalf("at %d: got version %d of %d, %v", version, p.Version(), newest, err)
	}
	return p
}

// What a drawn log may hold beside reflections and edits.
type extras struct{ restores, forgets, shared, again, rules bool }

var everything = extras{true, true, true, true, true}

// draw writes a log.
func draw(t *rapid.T, x extras) *desk {
	k := newDesk(t)
	k.stale = rapid.Bool().Draw(t, "stale")
	for range rapid.IntRange(1, 14).Draw(t, "deltas") {
		k.step(t, x)
	}
	return k
}

func (k *desk) step(t *rapid.T, x extras) {
	parts := rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "parts")
	switch n := rapid.IntRange(0, 19).Draw(t, "step"); {
	case n == 0 && x.restores:
		k.restore(rapid.Uint64Range(0, k.newest()).Draw(t, "restore"), parts)
	case n == 1 && x.forgets:
		k.forget(drawSelector(t, k), parts)
	case n == 2:
		k.abandon()
	case n < 8:
		k.edit("ann")
		for range rapid.IntRange(1, 3).Draw(t, "ops") {
			k.do(k.drawOp(t, x, true, []int{0}))
		}
		k.commit(parts)
	default:
		k.reflect(t, x)
	}
}

// reflect settles a batch of reflections.
func (k *desk) reflect(t *rapid.T, x extras) {
	var covers []playbook.Cover
	for range rapid.IntRange(1, 4).Draw(t, "reflections") {
		covers = append(covers, k.reflection(rapid.SampledFrom(k.sources).Draw(t, "source"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "session")))
	}
	k.begin(history.Curator, covers...)
	for range rapid.IntRange(1, 6).Draw(t, "ops") {
		support := []int{rapid.IntRange(0, len(covers)-1).Draw(t, "by")}
		if x.shared && rapid.Bool().Draw(t, "shared") {
			support = rapid.SliceOfNDistinct(rapid.IntRange(0, len(covers)-1), 1, -1, rapid.ID).Draw(t, "by all")
		}
		if x.rules && rapid.IntRange(0, 3).Draw(t, "finding") == 0 {
			k.sight(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key"), support...)
			continue
		}
		k.do(k.drawOp(t, x, false, support))
	}
	k.recount()
	k.commit(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "parts"))
}

func drawSelector(t *rapid.T, k *desk) playbook.Selector {
	source := rapid.SampledFrom(k.sources).Draw(t, "source")
	switch rapid.IntRange(0, 2).Draw(t, "selector") {
	case 0:
		return playbook.Selector{Source: source}
	case 1:
		return playbook.Selector{Session: source + "1"}
	}
	return playbook.Selector{Execution: fmt.Sprintf("%d-abcdef", rapid.IntRange(1, k.requests+1).Draw(t, "execution"))}
}

func (k *desk) drawID(t *rapid.T) playbook.BulletID {
	return playbook.MintID("others", rapid.Uint64Range(1, max(k.minted, 1)).Draw(t, "id"))
}

func (k *desk) drawOp(t *rapid.T, x extras, person bool, support []int) playbook.Op {
	kinds := []playbook.OpKind{playbook.Add, playbook.Add, playbook.Update, playbook.Remove, playbook.Merge}
	if person {
		kinds = append(kinds, playbook.Pin, playbook.SetStatus, playbook.SetStatus)
	} else {
		kinds = append(kinds, playbook.Tag, playbook.Tag, playbook.Tag, playbook.Retag, playbook.Trial, playbook.Second)
	}
	op := playbook.Op{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Bullet: k.drawID(t), Support: support}
	k.requests++
	words := fmt.Sprint("words ", k.requests)
	if b := k.draft.Bullet(k.drawID(t)); x.again && b != nil && b.Rule == nil && rapid.Bool().Draw(t, "again") {
		words = b.Content
	}
	switch op.Kind {
	case playbook.Add:
		op.Bullet, op.Content = "", words
	case playbook.Update:
		op.Content = words
	case playbook.Merge:
		op.Content = fmt.Sprint("words ", k.requests)
		op.Sources = rapid.SliceOfNDistinct(rapid.Custom(k.drawID), 1, 2, rapid.ID).Draw(t, "sources")
	case playbook.Tag:
		switch rapid.IntRange(0, 2).Draw(t, "vote") {
		case 0:
			op.Helpful = len(support)
		case 1:
			op.Harmful = len(support)
		default:
			op.Neutral = len(support)
		}
	case playbook.Retag:
		op.Was = rapid.SampledFrom([]playbook.Vote{playbook.Helpful, playbook.Harmful, playbook.Neutral}).Draw(t, "was")
		if rapid.Bool().Draw(t, "moves") {
			op.Harmful = len(support)
		}
	case playbook.Trial:
		for range support {
			op.Seen = append(op.Seen, playbook.Seen{
				Arm:   rapid.SampledFrom([]playbook.Arm{playbook.ArmShown, playbook.ArmWithheld, playbook.ArmOpen}).Draw(t, "arm"),
				Score: rapid.SampledFrom([]int{0, 4, playbook.MaxScore}).Draw(t, "score"), Undo: rapid.IntRange(0, 5).Draw(t, "undo") == 0,
			})
		}
	case playbook.SetStatus:
		op.Status = rapid.SampledFrom([]playbook.Status{playbook.Active, playbook.Retired}).Draw(t, "status")
	case playbook.Pin:
		op.Pinned = rapid.Bool().Draw(t, "pinned")
	}
	return op
}

// bulletsOf are the bullets of a state without times.
func bulletsOf(p *playbook.Playbook) map[playbook.BulletID]playbook.Bullet {
	all := map[playbook.BulletID]playbook.Bullet{}
	for b := range p.All() {
		c := *b
		c.CreatedAt, c.UpdatedAt, c.LastUsed = time.Time{}, time.Time{}, time.Time{}
		if c.Status == "" {
			c.Status = playbook.Active
		}
		if c.Case != nil && cmp.Equal(*c.Case, playbook.Case{}) { // nothing is known any more
			c.Case = nil
		}
		all[b.ID] = c
	}
	return all
}

// String is the log in lines, for who reads a failure.
func (k *desk) String() string {
	if k == nil {
		return ""
	}
	var out strings.Builder
	for _, d := range k.deltas {
		fmt.Fprintf(&out, "%d by %s", d.Version, d.Author)
		if d.Restores != nil {
			fmt.Fprintf(&out, " restores %d", *d.Restores)
		}
		if d.Forgets != nil {
			fmt.Fprintf(&out, " forgets %s", d.Forgets)
		}
		if d.More {
			fmt.Fprintf(&out, " part of %s", d.Change)
		}
		for _, c := range d.Covers {
			if e := c.Evidence; e != nil {
				fmt.Fprintf(&out, " [%s of %s]", e.Execution, e.Session)
			}
		}
		for _, op := range d.Ops {
			fmt.Fprintf(&out, "\n\t%s %s %q %s %v %d/%d/%d on %v", op.Kind, op.Bullet, op.Content, op.Status, op.Sources, op.Helpful, op.Harmful, op.Neutral, op.Support)
			if op.Whole != nil {
				fmt.Fprintf(&out, " %q %s", op.Whole.Content, op.Whole.Status)
			}
		}
		for _, j := range d.Rejected {
			fmt.Fprintf(&out, "\n\trejected %s %s %q on %v: %s %s", j.Op.Kind, j.Op.Bullet, j.Op.Content, j.Op.Support, j.Reason, j.Same)
		}
		out.WriteString("\n")
	}
	return out.String()
}

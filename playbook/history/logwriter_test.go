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

// logWriter writes a log as the Curator does. It accepts or rejects proposals against the current bullets. Proposals
// have different contents, unless a test repeats one.
type logWriter struct {
	rapid.TB
	deltas []*playbook.Delta
	p      playbook.Playbook
	states []*playbook.Playbook // by version

	minted   uint64
	requests int
	sources  []string

	d     *playbook.Delta // being written
	draft *playbook.Playbook
}

func newLogWriter(t rapid.TB) *logWriter {
	return &logWriter{TB: t, states: []*playbook.Playbook{new(playbook.Playbook)}, sources: []string{"a", "b", "c"}}
}

func (k *logWriter) log(fn func(*playbook.Delta) error) error {
	for _, d := range k.deltas {
		if err := fn(d); err != nil {
			return err
		}
	}
	return nil
}

func (k *logWriter) newest() uint64 { return uint64(len(k.deltas)) }

// begin begins a delta that covers reflections, or, with an author, an edit.
func (k *logWriter) begin(author string, covers ...playbook.Cover) {
	k.d, k.draft = &playbook.Delta{Author: author, Covers: covers}, k.p.Clone()
}

func (k *logWriter) edit(author string) {
	k.requests++
	k.begin(author, playbook.Cover{ID: fmt.Sprint("edit", k.requests), Seq: uint64(k.requests)})
	k.d.Reason = "because"
}

// reflection returns a cover with evidence.
func (k *logWriter) reflection(source, session string) playbook.Cover {
	k.requests++
	return playbook.Cover{ID: fmt.Sprint("r", k.requests), Seq: uint64(k.requests), Evidence: &playbook.Evidence{
		Execution: fmt.Sprintf("%d-abcdef", k.requests), Source: source, Session: source + session, Outcome: "success",
	}}
}

// propose adds an operation or a rejection to the delta. It reports whether the operation was accepted.
func (k *logWriter) propose(op playbook.Op) bool {
	same := func() playbook.BulletID {
		if b := k.draft.FindByContent(op.Content); b != nil && op.Content != "" && b.ID != op.Bullet && !slices.Contains(op.Sources, b.ID) {
			return b.ID
		}
		return ""
	}()
	reject := func(reason string) bool {
		k.d.Rejected = append(k.d.Rejected, playbook.Rejection{Op: op, Reason: reason, DuplicateOf: same})
		return false
	}
	there := k.draft.Bullet(op.Bullet) != nil
	switch {
	case same != "" && op.Kind == playbook.Add:
		return reject("duplicate")
	case same != "":
		same = ""
		return reject("duplicate of another bullet")
	case !there && op.Kind != playbook.Add && op.Kind != playbook.Put:
		return reject("unknown")
	case there && op.Kind == playbook.Remove && k.draft.Bullet(op.Bullet).Pinned:
		return reject("pinned")
	case op.Kind == playbook.Merge:
		op.Sources = slices.DeleteFunc(op.Sources, func(id playbook.BulletID) bool {
			b := k.draft.Bullet(id)
			return id == op.Bullet || b == nil || b.Pinned
		})
		if len(op.Sources) == 0 {
			return reject("nothing to merge")
		}
	case op.Kind == playbook.AddExposures:
		// Outcomes are of tasks that began before this delta, and of the content of that time.
		was := k.p.Bullet(op.Bullet)
		if was == nil || was.CurrentExperiment().Number != k.draft.Bullet(op.Bullet).CurrentExperiment().Number {
			return reject("of another case")
		}
		op.ExperimentNumber = was.CurrentExperiment().Number
		op.Reason = was.Content
	case op.Kind == playbook.Confirm:
		op.Reason = k.draft.Bullet(op.Bullet).Content
	}
	if op.Kind == playbook.Add {
		k.minted++
		op.Section = "others"
		op.Bullet = playbook.MintID(op.Section, k.minted)
	}
	k.addOp(op)
	return true
}

func (k *logWriter) addOp(op playbook.Op) {
	k.d.Ops = append(k.d.Ops, op)
	if _, err := k.draft.Apply(&playbook.Delta{Version: k.draft.Version() + 1, Ops: []playbook.Op{op}, Covers: k.d.Covers}); err != nil {
		k.Fatal(err)
	}
}

// commit writes the delta, in several parts if parts is over 1.
func (k *logWriter) commit(parts int) {
	d := k.d
	d.Time = time.Unix(int64(k.newest()), 0)
	if parts < 2 || len(d.Ops) == 0 {
		k.append(d)
		return
	}
	ops := d.Ops
	d.Ops, d.ChangeID = nil, fmt.Sprint("change", k.newest())
	for i := range ops {
		if d.Author != history.Curator { // otherwise indices into the covers of the last part
			ops[i].Support = nil
		}
	}
	cut := len(ops) / 2
	for _, some := range [][]playbook.Op{ops[:cut], ops[cut:]} {
		k.append(&playbook.Delta{Author: d.Author, Reason: d.Reason, Time: d.Time, ChangeID: d.ChangeID, More: true, Ops: some})
	}
	k.append(d)
}

// abandon writes a part of a change that is never completed.
func (k *logWriter) abandon() {
	k.append(&playbook.Delta{Author: "ann", ChangeID: fmt.Sprint("change", k.newest()), More: true, Time: time.Unix(int64(k.newest()), 0), Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "misc-77777", Section: "others", Content: "never"},
		{Kind: playbook.Remove, Bullet: playbook.MintID("others", 1)},
	}})
}

func (k *logWriter) append(d *playbook.Delta) {
	d.Version = k.newest() + 1
	if d.Version > 1 {
		d.PrevChain = []byte{1}
	}
	if err := d.Validate(); err != nil {
		k.Fatalf("wrote an invalid delta: %v", err)
	}
	k.deltas = append(k.deltas, d)
	if _, err := k.p.Apply(d); err != nil {
		k.Fatal(err)
	}
	k.states = append(k.states, k.p.Clone())
}

// forget writes a forget change as the Curator does. It reports whether anything matched.
func (k *logWriter) forget(s playbook.Selector, parts int) bool {
	f := k.without(s)
	if f.Matched == 0 {
		return false
	}
	k.edit("bob")
	k.d.Forget = &s
	for _, op := range history.OpsBetween(&k.p, f.Playbook) {
		op.Support = []int{0}
		k.addOp(op)
	}
	k.commit(parts)
	return true
}

func (k *logWriter) without(s playbook.Selector) *history.Forgetting {
	f, err := history.Forget(k.log, s)
	if err != nil {
		k.Fatal(err)
	}
	return f
}

func (k *logWriter) restore(version uint64, parts int) {
	then := k.at(version)
	k.edit("bob")
	k.d.RestoredVersion = &version
	for _, op := range history.OpsBetween(&k.p, then) {
		op.Support = []int{0}
		k.addOp(op)
	}
	k.commit(parts)
}

func (k *logWriter) at(version uint64) *playbook.Playbook {
	p, newest, err := history.StateAt(k.log, version)
	if err != nil || newest != k.newest() || p.Version() != version {
		k.Fatalf("at %d: got version %d of %d, %v", version, p.Version(), newest, err)
	}
	return p
}

// extras selects the kinds of changes in a random log, besides reflections and edits.
type extras struct{ restores, forgets, shared, again bool }

var allExtras = extras{true, true, true, true}

// drawLog writes a random log.
func drawLog(t *rapid.T, x extras) *logWriter {
	k := newLogWriter(t)
	for range rapid.IntRange(1, 14).Draw(t, "deltas") {
		k.step(t, x)
	}
	return k
}

func (k *logWriter) step(t *rapid.T, x extras) {
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
			k.propose(k.drawOp(t, x, true, []int{0}))
		}
		k.commit(parts)
	default:
		k.reflect(t, x)
	}
}

// reflect writes a delta that covers a batch of reflections.
func (k *logWriter) reflect(t *rapid.T, x extras) {
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
		k.propose(k.drawOp(t, x, false, support))
	}
	for range rapid.IntRange(0, 2).Draw(t, "decisions") {
		k.decide(t)
	}
	k.commit(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "parts"))
}

// decide writes a decision of the gate. It has no support, because all outcomes of the bullet led to it.
func (k *logWriter) decide(t *rapid.T) {
	b := k.draft.Bullet(k.drawID(t))
	if b == nil || b.Status == playbook.Quarantined {
		return
	}
	k.addOp(playbook.Op{
		Kind: playbook.SetStatus, Bullet: b.ID, Restart: rapid.Bool().Draw(t, "restart"),
		Status:   rapid.SampledFrom([]playbook.Status{playbook.Active, playbook.Probation, playbook.Retired}).Draw(t, "decision"),
		Standing: rapid.SampledFrom([]playbook.Standing{"", playbook.StandingSuspect, playbook.StandingTrusted}).Draw(t, "standing"),
	})
}

func drawSelector(t *rapid.T, k *logWriter) playbook.Selector {
	source := rapid.SampledFrom(k.sources).Draw(t, "source")
	switch rapid.IntRange(0, 2).Draw(t, "selector") {
	case 0:
		return playbook.Selector{Source: source}
	case 1:
		return playbook.Selector{Session: source + "1"}
	}
	return playbook.Selector{Execution: fmt.Sprintf("%d-abcdef", rapid.IntRange(1, k.requests+1).Draw(t, "execution"))}
}

func (k *logWriter) drawID(t *rapid.T) playbook.BulletID {
	return playbook.MintID("others", rapid.Uint64Range(1, max(k.minted, 1)).Draw(t, "id"))
}

func (k *logWriter) drawOp(t *rapid.T, x extras, person bool, support []int) playbook.Op {
	kinds := []playbook.OpKind{playbook.Add, playbook.Add, playbook.Update, playbook.Remove, playbook.Merge}
	if person {
		kinds = append(kinds, playbook.Pin, playbook.SetStatus, playbook.SetStatus)
	} else {
		kinds = append(kinds, playbook.Tag, playbook.Tag, playbook.Tag, playbook.Retag, playbook.AddExposures, playbook.Confirm)
	}
	op := playbook.Op{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Bullet: k.drawID(t), Support: support}
	k.requests++
	words := fmt.Sprint("words ", k.requests)
	if b := k.draft.Bullet(k.drawID(t)); x.again && b != nil && rapid.Bool().Draw(t, "again") {
		words = b.Content
	}
	switch op.Kind {
	case playbook.Add:
		op.Bullet, op.Content = "", words
		if !person {
			op.Standing = playbook.StandingNew
			op.Contests = rapid.SampledFrom([]playbook.BulletID{"", k.drawID(t)}).Draw(t, "contests")
		}
	case playbook.Update:
		op.Content = words
		op.Standing = rapid.SampledFrom([]playbook.Standing{"", playbook.StandingNew}).Draw(t, "standing")
	case playbook.Merge:
		op.Content = fmt.Sprint("words ", k.requests)
		op.Standing = rapid.SampledFrom([]playbook.Standing{"", playbook.StandingNew}).Draw(t, "standing")
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
		op.OldVote = rapid.SampledFrom([]playbook.Vote{playbook.Helpful, playbook.Harmful, playbook.Neutral}).Draw(t, "was")
		if rapid.Bool().Draw(t, "moves") {
			op.Harmful = len(support)
		}
	case playbook.AddExposures:
		for range support {
			seen := playbook.Exposure{
				Arm:   rapid.SampledFrom([]playbook.Arm{playbook.ArmShown, playbook.ArmWithheld, playbook.ArmOpen}).Draw(t, "arm"),
				Score: rapid.SampledFrom([]int{0, 4, playbook.MaxScore}).Draw(t, "score"), Undo: rapid.IntRange(0, 5).Draw(t, "undo") == 0,
			}
			seen.Cited = seen.Arm == playbook.ArmOpen || seen.Arm == playbook.ArmShown && rapid.Bool().Draw(t, "cited")
			op.Exposures = append(op.Exposures, seen)
		}
	case playbook.SetStatus:
		op.Status = rapid.SampledFrom([]playbook.Status{playbook.Active, playbook.Retired}).Draw(t, "status")
	case playbook.Pin:
		op.Pinned = rapid.Bool().Draw(t, "pinned")
	}
	return op
}

// bulletsOf returns the bullets of a state without times.
func bulletsOf(p *playbook.Playbook) map[playbook.BulletID]playbook.Bullet {
	all := map[playbook.BulletID]playbook.Bullet{}
	for b := range p.All() {
		c := *b
		c.CreatedAt, c.UpdatedAt, c.LastUsed = time.Time{}, time.Time{}, time.Time{}
		if c.Status == "" {
			c.Status = playbook.Active
		}
		if c.Experiment != nil && cmp.Equal(*c.Experiment, playbook.Experiment{}) { // no evidence is left
			c.Experiment = nil
		}
		all[b.ID] = c
	}
	return all
}

// String returns the log in lines, for failure messages.
func (k *logWriter) String() string {
	if k == nil {
		return ""
	}
	var out strings.Builder
	for _, d := range k.deltas {
		fmt.Fprintf(&out, "%d by %s", d.Version, d.Author)
		if d.RestoredVersion != nil {
			fmt.Fprintf(&out, " restores %d", *d.RestoredVersion)
		}
		if d.Forget != nil {
			fmt.Fprintf(&out, " forgets %s", d.Forget)
		}
		if d.More {
			fmt.Fprintf(&out, " part of %s", d.ChangeID)
		}
		for _, c := range d.Covers {
			if e := c.Evidence; e != nil {
				fmt.Fprintf(&out, " [%s of %s]", e.Execution, e.Session)
			}
		}
		for _, op := range d.Ops {
			fmt.Fprintf(&out, "\n\t%s %s %q %s %v %d/%d/%d on %v", op.Kind, op.Bullet, op.Content, op.Status, op.Sources, op.Helpful, op.Harmful, op.Neutral, op.Support)
			if op.PutBullet != nil {
				fmt.Fprintf(&out, " %q %s", op.PutBullet.Content, op.PutBullet.Status)
			}
		}
		for _, j := range d.Rejected {
			fmt.Fprintf(&out, "\n\trejected %s %s %q on %v: %s %s", j.Op.Kind, j.Op.Bullet, j.Op.Content, j.Op.Support, j.Reason, j.DuplicateOf)
		}
		out.WriteString("\n")
	}
	return out.String()
}

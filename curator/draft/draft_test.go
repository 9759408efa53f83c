package draft

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
)

// draftTest is a book without a server: it applies drafts as the log and its writer do.
type draftTest struct {
	policy  Config
	p       playbook.Playbook
	covered map[events.ID]bool
	deltas  []*playbook.Delta
	last    *draft
	// bullets that the gate must check next
	unchecked []playbook.BulletID
}

// take drafts and applies a batch as the worker does, and checks each delta.
func (n *draftTest) take(t rapid.TB, cases ...*Item) {
	t.Helper()
	for len(cases)+len(n.unchecked) > 0 {
		settled := n.one(t, cases)
		cases = cases[settled:]
	}
}

func (n *draftTest) one(t rapid.TB, cases []*Item) int {
	t.Helper()
	cfg := n.policy
	cfg.Covered = func(k *Item) bool { return n.covered[k.ID] }
	d := newDraft(&n.p, cfg)
	out := d.draftItems(cases, n.unchecked)
	if out.Decided == 0 && len(cases) > 0 {
		t.Fatal("a draft decided no item")
	}
	n.last, n.unchecked = d, out.Unchecked
	d.base = n.p.Clone()
	for i, delta := range out.Deltas {
		if len(out.Deltas) > 1 {
			delta.ChangeID, delta.More = "one", i < len(out.Deltas)-1
		}
		n.apply(t, d, delta)
	}
	return out.Decided
}

func (n *draftTest) apply(t rapid.TB, d *draft, delta *playbook.Delta) {
	t.Helper()
	delta.Version, delta.PrevChain, delta.Time = n.p.Version()+1, n.chain(), time.Unix(int64(n.p.Version()), 0)
	data, err := events.EncodeDelta(delta)
	if err != nil {
		t.Fatalf("a log would refuse the delta: %v", err)
	}
	if most := d.bytes + d.rejections.bytes + 2048; len(data) > most {
		t.Fatalf("delta has %d bytes, estimated at most %d", len(data), most)
	}
	if delta, err = events.DecodeDelta(data); err != nil {
		t.Fatal(err)
	}
	changed, err := n.p.Apply(delta)
	if err != nil {
		t.Fatal(err)
	}
	n.deltas = append(n.deltas, delta)
	if delta.More {
		if len(changed) > 0 {
			t.Fatalf("%d bullets changed before their change was complete", len(changed))
		}
		return
	}
	if len(changed) > playbook.MaxDeltaKeys && delta.ChangeID == "" {
		t.Fatalf("delta changes %d bullets, more than %d", len(changed), playbook.MaxDeltaKeys)
	}
	n.sameAs(t, d, delta)
	for _, c := range delta.Covers {
		n.cover(events.ID(c.ID))
	}
}

func (n *draftTest) chain() []byte {
	if n.p.Version() == 0 {
		return nil
	}
	return []byte("chain")
}

func (n *draftTest) cover(id events.ID) {
	if n.covered == nil {
		n.covered = map[events.ID]bool{}
	}
	n.covered[id] = true
}

// untimed compares bullets without their times, and sources in any order.
var untimed = cmp.Options{
	cmpopts.IgnoreFields(playbook.Bullet{}, "CreatedAt", "UpdatedAt", "LastUsed"),
	cmpopts.SortSlices(func(a, b playbook.SourceSupport) bool { return a.Source < b.Source }), cmpopts.EquateEmpty(),
}

// sameAs checks that the fold of a delta equals the state of its draft, and the rules for all deltas.
func (n *draftTest) sameAs(t rapid.TB, d *draft, delta *playbook.Delta) {
	t.Helper()
	for b := range n.p.All() {
		if want := d.Bullet(b.ID); want != b && !cmp.Equal(want, b, untimed) {
			t.Fatalf("bullet %s: the fold has %+v, the draft had %+v", b.ID, b, want)
		}
	}
	for b := range d.base.All() {
		if n.p.Bullet(b.ID) == nil {
			if d.Bullet(b.ID) != nil {
				t.Fatalf("bullet %s is gone from the fold and not from the draft", b.ID)
			}
			if b.Pinned && !slices.ContainsFunc(delta.Ops, func(op playbook.Op) bool { return op.Kind == playbook.Pin && op.Bullet == b.ID }) {
				t.Fatalf("bullet %s was pinned and is gone", b.ID)
			}
		}
	}
	for id, b := range d.changed {
		if b != nil && n.p.Bullet(id) == nil {
			t.Fatalf("bullet %s is in the draft and not in the fold", id)
		}
	}
	for _, op := range delta.Ops {
		if op.Kind != playbook.Tag {
			continue
		}
		if len(slices.Compact(slices.Sorted(slices.Values(op.Support)))) != op.Helpful+op.Harmful+op.Neutral {
			t.Fatalf("%d, %d, %d votes on %s from %v", op.Helpful, op.Harmful, op.Neutral, op.Bullet, op.Support)
		}
	}
}

// rejected returns the codes of all rejections.
func (n *draftTest) rejected() (codes []playbook.Reason) {
	for _, d := range n.deltas {
		for _, r := range d.Rejected {
			codes = append(codes, r.Code)
		}
	}
	return codes
}

// seed adds bullets to the book.
func (n *draftTest) seed(t rapid.TB, contents ...string) {
	t.Helper()
	k := &Item{ID: events.NewID(), Edit: &events.Edit{ID: events.NewID(), Author: "ann"}}
	for _, c := range contents {
		k.Edit.Ops = append(k.Edit.Ops, playbook.Op{Kind: playbook.Add, Section: "others", Content: c})
	}
	n.take(t, k)
	n.deltas = nil
}

func reflected(name string, r events.Reflection, proposals ...playbook.Op) *Item {
	r.Execution, r.Model = events.Hash(name), "m"
	k := &Item{ID: events.Hash(name), Reflection: &r}
	for _, op := range proposals {
		k.Proposals = append(k.Proposals, Proposal{Op: op})
	}
	return k
}

func tagged(name string, tags ...events.BulletTag) *Item {
	return reflected(name, events.Reflection{Tags: tags})
}

func edited(name string, ops ...playbook.Op) *Item {
	return &Item{ID: events.Hash(name), Edit: &events.Edit{ID: events.Hash(name), Author: "ann", Reason: "because", Ops: ops}}
}

func add(content string) playbook.Op {
	return playbook.Op{Kind: playbook.Add, Section: "others", Content: content}
}

func op(kind playbook.OpKind, id playbook.BulletID, content string) playbook.Op {
	return playbook.Op{Kind: kind, Bullet: id, Content: content}
}

// TestDraft drafts each batch with the gate off, on a book with the bullets "one", "two" and a pinned "three".
func TestDraft(t *testing.T) {
	t.Parallel()
	helpful := func(id playbook.BulletID) events.BulletTag { return events.BulletTag{ID: id, Tag: events.Helpful} }
	harmful := func(id playbook.BulletID) events.BulletTag { return events.BulletTag{ID: id, Tag: events.Harmful} }
	for _, test := range []struct {
		why      string
		batch    []*Item
		want     []string // bullets, as id content helpful/harmful/neutral
		rejected []playbook.Reason
	}{
		{
			"one vote per sample and bullet",
			[]*Item{tagged("r", helpful("misc-00001"), harmful("misc-00001"), helpful("misc-00001"))},
			[]string{"misc-00001 one 1/0/0"},
			[]playbook.Reason{playbook.ReasonVoted, playbook.ReasonVoted},
		},
		{
			"two samples vote twice",
			[]*Item{tagged("r", helpful("misc-00001")), tagged("s", harmful("misc-00001"))},
			[]string{"misc-00001 one 1/1/0"},
			nil,
		},
		{
			"the same reflection twice counts once",
			[]*Item{tagged("r", helpful("misc-00001")), tagged("r", helpful("misc-00001"))},
			[]string{"misc-00001 one 1/0/0"},
			nil,
		},
		{
			"a vote on nothing is turned down",
			[]*Item{tagged("r", helpful("misc-00099"))},
			nil,
			[]playbook.Reason{playbook.ReasonUnknownBullet},
		},
		{
			"an ADD of what is said, white space and case aside",
			[]*Item{reflected("r", events.Reflection{}, add("O n\tE"), add("four"), add("FO UR"))},
			[]string{"misc-00004 four 0/0/0"},
			[]playbook.Reason{playbook.ReasonDuplicate, playbook.ReasonDuplicate},
		},
		{
			"two reflections add the same",
			[]*Item{reflected("r", events.Reflection{}, add("four")), reflected("s", events.Reflection{}, add("Four"))},
			[]string{"misc-00004 four 0/0/0"},
			[]playbook.Reason{playbook.ReasonDuplicate},
		},
		{
			"an ADD and a vote on it",
			[]*Item{reflected("r", events.Reflection{}, add("four")), tagged("s", helpful("misc-00004"))},
			[]string{"misc-00004 four 1/0/0"},
			nil,
		},
		{
			"an ADD with an id of its own",
			[]*Item{reflected("r", events.Reflection{}, op(playbook.Add, "misc-00001", "four"))},
			nil,
			[]playbook.Reason{playbook.ReasonInvalid},
		},
		{
			"a vote, then the end of the bullet",
			[]*Item{tagged("r", helpful("misc-00001")), reflected("s", events.Reflection{}, op(playbook.Remove, "misc-00001", ""))},
			[]string{"-misc-00001"},
			nil,
		},
		{
			"a vote after the end of the bullet",
			[]*Item{reflected("s", events.Reflection{}, op(playbook.Remove, "misc-00001", "")), tagged("r", helpful("misc-00001"))},
			[]string{"-misc-00001"},
			[]playbook.Reason{playbook.ReasonUnknownBullet},
		},
		{
			"an UPDATE of a bullet that went",
			[]*Item{reflected("s", events.Reflection{}, op(playbook.Remove, "misc-00001", ""), op(playbook.Update, "misc-00001", "uno"))},
			[]string{"-misc-00001"},
			[]playbook.Reason{playbook.ReasonUnknownBullet},
		},
		{
			"what a bullet said can be said again when it is gone",
			[]*Item{reflected("s", events.Reflection{}, op(playbook.Remove, "misc-00001", ""), add("One"))},
			[]string{"-misc-00001", "misc-00004 One 0/0/0"},
			nil,
		},
		{
			"a MERGE takes votes along, those of this batch too",
			[]*Item{
				tagged("r", helpful("misc-00001"), harmful("misc-00002")),
				reflected("s", events.Reflection{}, playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "one, two", Sources: []playbook.BulletID{"misc-00002", "misc-00001", "misc-00002"}}),
				tagged("t", helpful("misc-00001"), helpful("misc-00002")),
			},
			[]string{"misc-00001 one, two 2/1/0", "-misc-00002"},
			[]playbook.Reason{playbook.ReasonUnknownBullet},
		},
		{
			"a MERGE of one",
			[]*Item{reflected("s", events.Reflection{}, playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "both", Sources: []playbook.BulletID{"misc-00001"}})},
			nil,
			[]playbook.Reason{playbook.ReasonInvalid},
		},
		{
			"a MERGE with one that is not there",
			[]*Item{reflected("s", events.Reflection{}, playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "both", Sources: []playbook.BulletID{"misc-00002", "misc-00099"}})},
			nil,
			[]playbook.Reason{playbook.ReasonUnknownBullet},
		},
		{
			"a MERGE into what a third says",
			[]*Item{reflected("s", events.Reflection{}, playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "THREE", Sources: []playbook.BulletID{"misc-00002"}})},
			nil,
			[]playbook.Reason{playbook.ReasonDuplicate},
		},
		{
			"pinned bullets stay",
			[]*Item{reflected("s", events.Reflection{},
				op(playbook.Remove, "misc-00003", ""),
				playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "both", Sources: []playbook.BulletID{"misc-00003"}})},
			nil,
			[]playbook.Reason{playbook.ReasonPinned, playbook.ReasonPinned},
		},
		{
			"an UPDATE keeps votes",
			[]*Item{tagged("r", helpful("misc-00001")), reflected("s", events.Reflection{}, op(playbook.Update, "misc-00001", "uno")), tagged("t", helpful("misc-00001"))},
			[]string{"misc-00001 uno 2/0/0"},
			nil,
		},
		{
			"an UPDATE to what another says",
			[]*Item{reflected("s", events.Reflection{}, op(playbook.Update, "misc-00001", "Two"))},
			nil,
			[]playbook.Reason{playbook.ReasonDuplicate},
		},
		{
			"an UPDATE to what it says",
			[]*Item{reflected("s", events.Reflection{}, op(playbook.Update, "misc-00001", "one"))},
			nil,
			[]playbook.Reason{playbook.ReasonDuplicate},
		},
		{
			"an UPDATE of capitals alone",
			[]*Item{edited("e", op(playbook.Update, "misc-00001", "One"))},
			[]string{"misc-00001 One 0/0/0"},
			nil,
		},
		{
			"an edit of what no log can hold as it comes",
			[]*Item{edited("e", add("fo\r\nur "), playbook.Op{Kind: playbook.Update, Bullet: "misc-00002", Content: "zwei", Section: "x\n## Forged"})},
			[]string{"misc-00002 zwei 0/0/0", "misc-00004 fo\nur 0/0/0"},
			nil,
		},
		{
			"an edit that no log can hold is refused, all of it, and stops nobody else",
			[]*Item{
				tagged("r", helpful("misc-00001")),
				edited("e", add(" \x00 "), add("fo\r\nur "), op(playbook.Tag, "misc-00001", ""), playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00001", Status: "gone"},
					playbook.Op{Kind: playbook.Update, Bullet: "misc-00002", Content: "zwei", Section: "x\n## Forged"}, playbook.Op{Kind: "MOVE", Bullet: "misc-00001"}),
				tagged("s", helpful("misc-00001")),
			},
			[]string{"misc-00001 one 2/0/0"},
			[]playbook.Reason{
				playbook.ReasonInvalid, playbook.ReasonInvalid, playbook.ReasonInvalid, playbook.ReasonInvalid,
			},
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			n := &draftTest{policy: Config{GateMode: playbook.GateOff}}
			n.seed(t, "one", "two", "three")
			n.take(t, edited("pin", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00003", Pinned: true}))
			before := n.p.Clone()
			n.take(t, test.batch...)
			var got []string
			for b := range before.All() {
				if n.p.Bullet(b.ID) == nil {
					got = append(got, "-"+string(b.ID))
				}
			}
			for _, b := range n.p.Sorted() {
				old := before.Bullet(b.ID)
				if old == nil || !cmp.Equal(old, b, untimed) {
					got = append(got, fmt.Sprintf("%s %s %d/%d/%d", b.ID, b.Content, b.Helpful, b.Harmful, b.Neutral))
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("bullets: got %q, want %q", got, test.want)
			}
			if reasons := n.rejected(); !slices.Equal(reasons, test.rejected) {
				t.Errorf("rejections: got %q, want %q", reasons, test.rejected)
			}
		})
	}
}

// TestOperationOnRemovedBulletIsRejected removes the bullet after the proposals were made.
func TestOperationOnRemovedBulletIsRejected(t *testing.T) {
	t.Parallel()
	n := &draftTest{policy: Config{GateMode: playbook.GateOff}}
	n.seed(t, "one", "two")
	n.take(t, edited("e", op(playbook.Remove, "misc-00001", "")), tagged("v", events.BulletTag{ID: "misc-00001", Tag: events.Helpful}),
		reflected("u", events.Reflection{}, op(playbook.Update, "misc-00001", "uno"), op(playbook.Remove, "misc-00001", "")),
		reflected("m", events.Reflection{}, playbook.Op{Kind: playbook.Merge, Bullet: "misc-00002", Content: "both", Sources: []playbook.BulletID{"misc-00001"}}))
	want := slices.Repeat([]playbook.Reason{playbook.ReasonUnknownBullet}, 4)
	if got := n.rejected(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n.p.Len() != 1 || n.p.Bullet("misc-00002").Content != "two" {
		t.Errorf("got %d bullets, want the other one as it was", n.p.Len())
	}
}

func TestVotesOfBatchAreSummed(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.seed(t, "one", "two")
	var batch []*Item
	for i := range 50 {
		batch = append(batch, tagged(fmt.Sprint(i), events.BulletTag{ID: "misc-00001", Tag: events.Helpful}, events.BulletTag{ID: "misc-00002", Tag: events.Harmful}))
	}
	n.take(t, batch...)
	if len(n.deltas) != 1 || len(n.deltas[0].Ops) != 2 || len(n.deltas[0].Covers) != 50 {
		t.Fatalf("got %d deltas, want one with two operations that covers 50", len(n.deltas))
	}
	for _, op := range n.deltas[0].Ops {
		if op.Kind != playbook.Tag || len(op.Support) != 50 || op.Helpful+op.Harmful != 50 {
			t.Errorf("got %s of %s with %d supports, want a TAG with 50", op.Kind, op.Bullet, len(op.Support))
		}
	}
}

func TestEditHasSeparateDelta(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.seed(t, "one")
	e := edited("e", op(playbook.Remove, "misc-00009", ""), add("two"))
	e.Edit.Reason = strings.Repeat("r", 1<<20)
	n.take(t, tagged("a", events.BulletTag{ID: "misc-00001", Tag: events.Helpful}), e, edited("f", add("three")),
		tagged("b", events.BulletTag{ID: "misc-00001", Tag: events.Helpful}))
	var authors []string
	for _, d := range n.deltas {
		authors = append(authors, fmt.Sprintf("%s covers %d", d.Author, len(d.Covers)))
	}
	if want := []string{"curator covers 1", "ann covers 1", "ann covers 1", "curator covers 1"}; !slices.Equal(authors, want) {
		t.Errorf("got %q, want %q", authors, want)
	}
	if got := e.Decision.Refused; len(got) != 1 || got[0].Code != playbook.ReasonUnknownBullet {
		t.Errorf("refused: got %+v, want the code %q", got, playbook.ReasonUnknownBullet)
	}
	if got := n.deltas[1].Reason; !strings.HasPrefix(got, "rrr") || len(got) > 2*screen.MaxReason {
		t.Errorf("reason: got %d bytes, want the beginning", len(got))
	}
	if n.deltas[2].Reason != "because" {
		t.Errorf("reason: got %q", n.deltas[2].Reason)
	}
}

// TestDraftSkipsCoveredEvents lets another Curator commit one of three events first.
func TestDraftSkipsCoveredEvents(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.seed(t, "one")
	n.cover(events.Hash("b"))
	batch := []*Item{tagged("b"), tagged("a"), tagged("b"), tagged("c")}
	for _, k := range batch {
		k.Reflection.Tags = []events.BulletTag{{ID: "misc-00001", Tag: events.Helpful}}
	}
	n.take(t, batch...)
	if got := n.p.Bullet("misc-00001").Helpful; got != 2 {
		t.Errorf("got %d votes, want 2", got)
	}
	n.take(t, batch...)
	if len(n.deltas) != 1 {
		t.Errorf("got %d deltas, want no second one for the covered event", len(n.deltas))
	}
}

// TestEditsWithoutEffectAreRefused: an edit with parts that exclude each other is refused as a whole, so that no part succeeds without a change.
func TestEditsWithoutEffectAreRefused(t *testing.T) {
	t.Parallel()
	version := uint64(1)
	ops := []playbook.Op{add("two")}
	names := []playbook.Name{{Name: "best"}}
	fork := &playbook.Fork{Of: "other", At: "1"}
	forget := &playbook.Selector{Source: "desk"}
	gathered := []events.Handle{"1-00000001"}
	redacted := []playbook.RedactedVersion{{Version: 1, Sum: make([]byte, 32)}}
	for name, e := range map[string]events.Edit{
		"restore and forget":     {Restore: &version, Forget: forget},
		"restore and operations": {Restore: &version, Ops: ops},
		"restore and rebuild":    {Restore: &version, Rebuild: true},
		"restore and fork":       {Restore: &version, Fork: fork},
		"forget and operations":  {Forget: forget, Ops: ops},
		"forget and rebuild":     {Forget: forget, Rebuild: true},
		"forget and fork":        {Forget: forget, Fork: fork},
		"gather and operations":  {Gather: gathered, Ops: ops},
		"gather and names":       {Gather: gathered, Names: names},
		"gather and restore":     {Gather: gathered, Restore: &version},
		"gather and forget":      {Gather: gathered, Forget: forget},
		"gather and rebuild":     {Gather: gathered, Rebuild: true},
		"gather and gate":        {Gather: gathered, Gate: playbook.GateOff},
		"gather and fork":        {Gather: gathered, Fork: fork},
		"gather and redact":      {Gather: gathered, Redact: redacted},
		"redact and operations":  {Redact: redacted, Ops: ops},
		"redact and names":       {Redact: redacted, Names: names},
		"redact and restore":     {Redact: redacted, Restore: &version},
		"redact and forget":      {Redact: redacted, Forget: forget},
		"redact and rebuild":     {Redact: redacted, Rebuild: true},
		"redact and gate":        {Redact: redacted, Gate: playbook.GateOff},
		"redact and fork":        {Redact: redacted, Fork: fork},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := new(draftTest)
			n.seed(t, "one")
			k := edited("both")
			e.ID, e.Author = k.Edit.ID, k.Edit.Author
			k.Edit = &e
			k.Target, k.Gathered = &Target{Version: n.p.Version(), Source: &n.p}, &Gathered{}
			n.take(t, k)
			if refused := k.Decision.Refused; len(refused) != 1 || refused[0].Code != playbook.ReasonInvalid {
				t.Errorf("got the refusals %v, want one with the code %s", refused, playbook.ReasonInvalid)
			}
		})
	}
}

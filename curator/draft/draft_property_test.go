package draft

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/playbook"
)

// sightings are findings of rules in random runs. Equal keys have equal texts, as with real rules.
var sightings = []events.Finding{
	{Key: "used/b", Section: "s", Text: "b: {helpful}, {harmful}", CountOnly: true},
	{Key: "order/a/b", Section: "s", Text: "a before b: {helpful} of {base.helpful}, {harmful} of {base.harmful}", Base: "used/b"},
	{Key: "order/c/b", Section: "s", Text: "c before b: {helpful} of {base.helpful}, {harmful} of {base.harmful}", Base: "used/b"},
	{Key: "error/x", Section: "t", Text: "x fails ({runs}, {neutral})"},
	{Key: "error/y", Section: "t", Text: "y fails"},
	{Key: "error/z", Section: "u", Text: "y fails"}, // the same words under another key
	{Key: "order/d/e", Section: "s", Text: "d before e: {base.runs}", Base: "used/e"},
}

func drawFindings(t *rapid.T) (found []events.Finding) {
	vote := rapid.SampledFrom([]events.Vote{events.Helpful, events.Harmful, events.Neutral}).Draw(t, "outcome")
	for _, f := range rapid.SliceOfN(rapid.SampledFrom(sightings), 0, 5).Draw(t, "findings") {
		f.Vote = vote
		found = append(found, f)
	}
	return found
}

func drawID(t *rapid.T) playbook.BulletID {
	n := rapid.Uint64Range(1, 12).Draw(t, "id")
	return playbook.MintID(rapid.SampledFrom([]string{"others", "s", "t"}).Draw(t, "slug"), n)
}

func drawProposal(t *rapid.T) playbook.Op {
	text := rapid.SampledFrom([]string{"one", "O ne", "two", "three", "four", "five"})
	op := playbook.Op{Kind: rapid.SampledFrom([]playbook.OpKind{
		playbook.Add, playbook.Add, playbook.Update, playbook.Tag, playbook.Remove, playbook.Merge,
	}).Draw(t, "kind")}
	if op.Kind != playbook.Add {
		op.Bullet = drawID(t)
	}
	switch op.Kind {
	case playbook.Add:
		op.Section, op.Content = "others", text.Draw(t, "content")
	case playbook.Update:
		op.Content = text.Draw(t, "content")
	case playbook.Tag:
		op.Helpful = 1
	case playbook.Merge:
		op.Content = text.Draw(t, "content")
		op.Sources = rapid.SliceOfN(rapid.Custom(drawID), 0, 3).Draw(t, "sources")
	}
	return op
}

func drawReflection(t *rapid.T) *Item {
	r := events.Reflection{Findings: drawFindings(t)}
	for range rapid.IntRange(0, 4).Draw(t, "tags") {
		r.Tags = append(r.Tags, events.BulletTag{ID: drawID(t), Tag: rapid.SampledFrom([]events.Vote{events.Helpful, events.Harmful, events.Neutral}).Draw(t, "vote")})
	}
	return reflected(string(events.NewID()), r, rapid.SliceOfN(rapid.Custom(drawProposal), 0, 3).Draw(t, "proposals")...)
}

func drawEdit(t *rapid.T) *Item {
	ops := rapid.SliceOfN(rapid.Custom(drawProposal), 1, 4).Draw(t, "edit")
	if rapid.Bool().Draw(t, "pin") {
		ops = append(ops, playbook.Op{Kind: playbook.Pin, Bullet: drawID(t), Pinned: rapid.Bool().Draw(t, "pinned")})
	}
	if rapid.Bool().Draw(t, "status") {
		ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: drawID(t), Status: rapid.SampledFrom([]playbook.Status{"", playbook.Retired, playbook.Candidate, "odd"}).Draw(t, "to")})
	}
	return edited(string(events.NewID()), ops...)
}

func drawCases(t *rapid.T) []*Item {
	return rapid.SliceOfN(rapid.OneOf(rapid.Custom(drawReflection), rapid.Custom(drawReflection), rapid.Custom(drawReflection), rapid.Custom(drawEdit)), 1, 30).Draw(t, "cases")
}

// inBatches takes the items in random batches.
func inBatches(t *rapid.T, cases []*Item) *draftTest {
	n := new(draftTest)
	for len(cases) > 0 {
		size := rapid.IntRange(1, len(cases)).Draw(t, "batch")
		n.take(t, cases[:size]...)
		cases = cases[size:]
	}
	return n
}

// TestDraftMatchesFold relies on draftTest.sameAs, which compares each delta with its draft.
func TestDraftMatchesFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inBatches(t, drawCases(t))
	})
}

// TestStateDoesNotDependOnBatches draws random batch boundaries for the same sequence of reflections and edits.
func TestStateDoesNotDependOnBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cases := drawCases(t)
		a, b := new(draftTest), inBatches(t, cases)
		for _, k := range cases {
			a.take(t, k)
		}
		if a.p.StateHash() != b.p.StateHash() {
			t.Fatalf("other batches, another state (-one by one +batched):\n%s", cmp.Diff(a.p.Sorted(), b.p.Sorted(), untimed))
		}
	})
}

// counted returns the content of a rule's bullet by its key.
func rulesOf(p *playbook.Playbook) map[string]string {
	all := map[string]string{}
	for b := range p.All() {
		if b.Rule != nil {
			all[b.Rule.Key] += fmt.Sprintf("%s|%s|%s|%d/%d/%d|%s", b.Section, b.Content, b.Status, b.Helpful, b.Harmful, b.Neutral, b.Rule.Base)
		}
	}
	return all
}

// TestRuleCountsDoNotDependOnOrder ignores the ids of the bullets.
func TestRuleCountsDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var cases []*Item
		for i := range rapid.IntRange(1, 40).Draw(t, "runs") {
			cases = append(cases, reflected(fmt.Sprint(i), events.Reflection{Findings: drawFindings(t)}))
		}
		want := rulesOf(&inBatches(t, cases).p)
		got := rulesOf(&inBatches(t, rapid.Permutation(cases).Draw(t, "order")).p)
		if !maps.Equal(got, want) {
			t.Fatalf("another order, another outcome:\n%s", cmp.Diff(want, got))
		}
	})
}

// TestContrastFollowsItsCounts follows one rule from candidate to active and back.
func TestContrastFollowsItsCounts(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	runs := 0
	run := func(vote events.Vote, keys ...string) {
		var r events.Reflection
		for _, f := range sightings {
			if slices.Contains(keys, f.Key) {
				f.Vote = vote
				r.Findings = append(r.Findings, f)
			}
		}
		runs++
		n.take(t, reflected(fmt.Sprint(runs), r))
	}
	for range 6 {
		run(events.Helpful, "used/b", "order/a/b")
	}
	b := n.p.ByRule("order/a/b")
	if b == nil || b.Status != playbook.Candidate || b.Content != sightings[1].Text {
		t.Fatalf("before any failed run: got %+v, want a candidate with the bare text", b)
	}
	for range 6 {
		run(events.Harmful, "used/b")
	}
	if b = n.p.ByRule("order/a/b"); !b.Shown() || b.Content != "a before b: 6 of 6, 0 of 6" {
		t.Errorf("after six failures without it: got %+v, want it shown with its counts", b)
	}
	if base := n.p.ByRule("used/b"); base.Shown() {
		t.Errorf("a count is shown: %+v", base)
	}
	for range 6 {
		run(events.Harmful, "used/b", "order/a/b")
	}
	run(events.Helpful, "used/b")
	run(events.Helpful, "used/b")
	run(events.Helpful, "used/b")
	if b = n.p.ByRule("order/a/b"); b.Shown() || b.Content != sightings[1].Text {
		t.Errorf("after six failures with it: got %+v, want a candidate with the bare text", b)
	}
	n.take(t, edited("retire", playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: playbook.Retired}))
	for range 20 {
		run(events.Helpful, "used/b", "order/a/b")
		run(events.Harmful, "used/b")
	}
	if b = n.p.ByRule("order/a/b"); b.Status != playbook.Retired {
		t.Errorf("a person retired it: got %s, want it to stay so", b.Status)
	}
}

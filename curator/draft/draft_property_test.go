package draft

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/playbook"
)

func drawID(t *rapid.T) playbook.BulletID {
	n := rapid.Uint64Range(1, 12).Draw(t, "id")
	return playbook.MintID(rapid.SampledFrom([]string{"others", "s", "t"}).Draw(t, "slug"), n)
}

func drawProposal(t *rapid.T) playbook.Op {
	text := rapid.SampledFrom([]string{"one", "O ne", "two", "three", "four", "five"})
	conditions := rapid.SampledFrom([]string{"", "", "it is six", "it is seven", "it is six or seven"})
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
		if rapid.Bool().Draw(t, "keeps all") {
			op.Content = "one two three four five six seven"
		}
	}
	if op.Content != "" {
		op.When, op.Content, _ = playbook.CleanText(conditions.Draw(t, "when"), op.Content)
	}
	return op
}

func drawReflection(t *rapid.T) *Item {
	var r events.Reflection
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

package request

import (
	"slices"
	"testing"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestFeedbackCountsOnlyOwnVotes has a delta that also covers other feedback.
func TestFeedbackCountsOnlyOwnVotes(t *testing.T) {
	t.Parallel()
	e := &events.Execution{ID: events.Hash("e"), Outcome: events.Outcome{Label: events.Unknown}}
	fb := &events.Feedback{ID: events.Hash("f")}
	cover := func(id events.ID, sample events.ID, seq uint64, outcome events.Label, score float64) playbook.Cover {
		return playbook.Cover{ID: string(id), Evidence: &playbook.Evidence{Sample: string(sample), FeedbackSeq: seq, Outcome: string(outcome), Score: score}}
	}
	effect := newFeedbackResult(nil, fb, e)
	effect.add(&deltalog.Record{Delta: playbook.Delta{Version: 1, Covers: []playbook.Cover{
		cover(events.Hash("earlier"), e.ID, 7, events.Partial, 0.5), cover(events.Hash("oldest"), e.ID, 6, events.Success, 1),
		cover(events.Hash("elsewhere"), events.Hash("x"), 8, events.Failure, 0),
	}}})
	if effect.Version != "" || effect.Before.Label != events.Partial || effect.Before.Score != 0.5 {
		t.Errorf("got outcome %+v, version %q; want the outcome of the latest feedback", effect.Before, effect.Version)
	}
	effect.sequence = 10
	effect.add(&deltalog.Record{Delta: playbook.Delta{
		Version: 2, Covers: []playbook.Cover{cover(events.Hash("other"), events.Hash("x"), 9, events.Failure, 0), cover(fb.ID, e.ID, 10, events.Failure, 0)},
		Ops: []playbook.Op{
			{Kind: playbook.Retag, Bullet: "a", OldVote: playbook.Helpful, Harmful: 1, Support: []int{1}},
			{Kind: playbook.Tag, Bullet: "b", Helpful: 2, Support: []int{0, 1}},
			{Kind: playbook.Retag, Bullet: "c", OldVote: playbook.Neutral, Support: []int{1}},
			{Kind: playbook.Tag, Bullet: "d", Neutral: 1, Support: []int{0}},
			{Kind: playbook.AddExposures, Bullet: "a", Support: []int{1}},
		},
		Rejected: []playbook.Rejection{{Reason: "ours", Op: playbook.Op{Support: []int{1}}}, {Reason: "another", Op: playbook.Op{Support: []int{0}}}},
	}})
	want := []MovedVote{{"a", playbook.Helpful, playbook.Harmful}, {"b", "", playbook.Helpful}, {"c", playbook.Neutral, ""}}
	if !slices.Equal(effect.Moved, want) || effect.Outcomes != 1 || !slices.Equal(effect.Refused, []string{"ours"}) {
		t.Errorf("got votes %v, %d outcomes, refused %q; want votes %v", effect.Moved, effect.Outcomes, effect.Refused, want)
	}
	duplicate := newFeedbackResult(nil, fb, e)
	duplicate.add(&deltalog.Record{Delta: playbook.Delta{
		Version: 2, Covers: []playbook.Cover{cover(fb.ID, e.ID, 10, events.Failure, 0)}, Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: "b", Helpful: 1, Support: []int{0}}},
	}})
	if duplicate.Version == "" || len(duplicate.Moved) > 0 {
		t.Errorf("a duplicate: version %q, moved %v; want it covered without moved votes", duplicate.Version, duplicate.Moved)
	}
	if effect.Version != "2" || effect.Before.Label != events.Partial {
		t.Errorf("got version %q and outcome %+v; want version 2 and the outcome before", effect.Version, effect.Before)
	}
}

package history_test

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// standingOf folds the standing of a sample.
func (k *logWriter) standingOf(handle string) *history.Contribution {
	s := history.NewContribution(handle)
	for _, d := range k.deltas {
		s.Apply(d)
	}
	return s
}

// indexedContribution returns the contribution of a sample from the deltas that the index names.
func (k *logWriter) indexedContribution(handle string) *history.Contribution {
	var x history.SampleIndex
	for _, d := range k.deltas {
		x.Add(d)
	}
	var deltas []*playbook.Delta
	for _, version := range x.Versions(handle) {
		deltas = append(deltas, k.deltas[version-1])
	}
	return x.Contribution(handle, deltas)
}

// sameContribution reports whether two contributions of a sample to the bullets are equal.
func sameContribution(a, b *history.Contribution, bullets iter.Seq[*playbook.Bullet]) bool {
	same := a.Version() == b.Version() && a.LastFeedback() == b.LastFeedback() && a.Inferred() == b.Inferred() &&
		reflect.DeepEqual(a.Votes(), b.Votes())
	for bullet := range bullets {
		number := bullet.CurrentExperiment().Number
		same = same && a.MergedInto(bullet.ID) == b.MergedInto(bullet.ID) && slices.Equal(a.Outcomes(bullet.ID, number), b.Outcomes(bullet.ID, number))
	}
	return same
}

// addFeedback writes a delta that covers feedback on an execution. It casts one vote on a bullet, or moves the vote
// that exists. Feedback on a forgotten execution is rejected.
func (k *logWriter) addFeedback(handle string, id playbook.BulletID, vote playbook.Vote) {
	k.requests++
	evidence := &playbook.Evidence{Execution: handle, Sample: handle, Source: "s" + handle, FeedbackSeq: uint64(k.requests)}
	k.begin(history.Curator, playbook.Cover{ID: fmt.Sprint("r", k.requests), Seq: uint64(k.requests), Evidence: evidence})
	if admission := k.p.Admission(); admission.Forgets(evidence) {
		k.d.Rejected = append(k.d.Rejected, playbook.Rejection{Op: playbook.Op{Support: []int{0}}, Code: playbook.ReasonForgotten})
		k.commit(1)
		return
	}
	op := playbook.Op{Kind: playbook.Tag, Bullet: id, Support: []int{0}}
	if has := k.standingOf(handle).Votes()[id]; len(has) > 0 {
		op.Kind, op.OldVote = playbook.Retag, has[0]
	}
	switch vote {
	case playbook.Helpful:
		op.Helpful = 1
	case playbook.Harmful:
		op.Harmful = 1
	case playbook.Neutral:
		op.Neutral = 1
	}
	if vote != "" || op.Kind == playbook.Retag {
		k.propose(op)
	}
	if b := k.draft.Bullet(id); b != nil {
		seen := playbook.Op{Kind: playbook.AddExposures, Bullet: id, ExperimentNumber: b.CurrentExperiment().Number}
		for _, was := range k.standingOf(handle).Outcomes(id, seen.ExperimentNumber) {
			was.Undo = true
			seen.Exposures, seen.Support = append(seen.Exposures, was), append(seen.Support, 0)
		}
		seen.Exposures, seen.Support = append(seen.Exposures, playbook.Exposure{Arm: playbook.ArmShown, Score: k.requests % 11}), append(seen.Support, 0)
		k.propose(seen)
	}
	k.commit(1)
}

// After merges, removals, restores and forget changes, the votes of all samples equal the counters of the bullets. No
// sample has more than one outcome in a case.
func TestStandingsSumToTheCounters(t *testing.T) {
	t.Parallel()
	handles := []string{"1-aa", "2-bb", "3-cc"}
	rapid.Check(t, func(t *rapid.T) {
		k := newLogWriter(t)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			handle, id := rapid.SampledFrom(handles).Draw(t, "execution"), k.drawID(t)
			op := playbook.Op{Bullet: id, Support: []int{0}, Content: fmt.Sprint("words ", k.requests)}
			switch n := rapid.IntRange(0, 11).Draw(t, "step"); {
			case n < 5:
				k.addFeedback(handle, id, rapid.SampledFrom([]playbook.Vote{playbook.Helpful, playbook.Harmful, playbook.Neutral, ""}).Draw(t, "vote"))
				continue
			case n < 7:
				op.Kind, op.Bullet = playbook.Add, ""
			case n == 7:
				op.Kind, op.Sources = playbook.Merge, []playbook.BulletID{k.drawID(t)}
			case n == 8:
				op.Kind = playbook.Update
			case n == 9:
				op.Kind, op.Content = playbook.Remove, ""
			case n == 10:
				k.restore(rapid.Uint64Range(0, k.newest()).Draw(t, "version"), 1)
				continue
			default:
				k.forget(playbook.Selector{Execution: handle}, rapid.IntRange(1, 2).Draw(t, "parts"))
				continue
			}
			k.edit("ann")
			k.propose(op)
			k.commit(rapid.IntRange(1, 2).Draw(t, "parts"))
		}
		want, got := map[playbook.BulletID]history.Votes{}, map[playbook.BulletID]history.Votes{}
		outcomes := map[playbook.BulletID]int{}
		for b := range k.p.All() {
			if v := (history.Votes{Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral}); v != (history.Votes{}) {
				want[b.ID] = v
			}
		}
		for _, handle := range handles {
			s := k.standingOf(handle)
			if indexed := k.indexedContribution(handle); !sameContribution(s, indexed, k.p.All()) {
				t.Fatalf("%s: the index leads to votes %v, last feedback %d at version %d, want %v, %d and %d\n%v",
					handle, indexed.Votes(), indexed.LastFeedback(), indexed.Version(), s.Votes(), s.LastFeedback(), s.Version(), k)
			}
			for id, votes := range s.Votes() {
				v := got[id]
				for _, vote := range votes {
					switch vote {
					case playbook.Helpful:
						v.Helpful++
					case playbook.Harmful:
						v.Harmful++
					default:
						v.Neutral++
					}
				}
				got[id] = v
			}
			for b := range k.p.All() {
				n := len(s.Outcomes(b.ID, b.CurrentExperiment().Number))
				if outcomes[b.ID] += n; n > 1 {
					t.Fatalf("%s has %d outcomes of %s\n%v", b.ID, n, handle, k)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want the counters %v\n%v", got, want, k)
		}
		for b := range k.p.All() {
			if c := b.CurrentExperiment(); c.Shown.Count() != outcomes[b.ID] {
				t.Fatalf("%s: got %d outcomes, want the %d of its case\n%v", b.ID, outcomes[b.ID], c.Shown.Count(), k)
			}
		}
	})
}

// TestRequestsThatAreUndone: after a forget change or a restore, a sample has not requested what it requested since.
func TestRequestsThatAreUndone(t *testing.T) {
	t.Parallel()
	evidence := func(sample string) []playbook.Cover {
		return []playbook.Cover{{ID: sample, Seq: 1, Evidence: &playbook.Evidence{Execution: sample, Sample: sample, Source: sample}}}
	}
	first := uint64(1)
	for name, undo := range map[string]*playbook.Delta{
		"forget":  {Version: 3, Author: "ann", Forget: &playbook.Selector{Source: "b"}},
		"restore": {Version: 3, Author: "ann", RestoredVersion: &first},
	} {
		s := history.NewContribution("b")
		s.Apply(&playbook.Delta{Version: 1, Author: history.Curator, Covers: evidence("a"), Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "misc-00001", Content: "advice", Support: []int{0}}}})
		s.Apply(&playbook.Delta{Version: 2, Author: history.Curator, Covers: evidence("b"), Ops: []playbook.Op{{Kind: playbook.Confirm, Bullet: "misc-00001", Support: []int{0}}}})
		if !s.Requested("misc-00001") {
			t.Errorf("%s: the sample has not requested the bullet", name)
		}
		s.Apply(undo)
		if s.Requested("misc-00001") {
			t.Errorf("%s: the sample has still requested the bullet", name)
		}
	}
}

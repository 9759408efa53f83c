package history_test

import (
	stdcmp "cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// requireEqual compares two states.
func requireEqual(t rapid.TB, k *logWriter, what string, want, got *playbook.Playbook) {
	t.Helper()
	if diff := cmp.Diff(bulletsOf(want), bulletsOf(got)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s\n%v", what, diff, k)
	}
	if want.StateHash() != got.StateHash() || len(history.Diff(want, got)) > 0 {
		t.Fatalf("%s: the same bullets have another hash or a difference", what)
	}
}

// The log may contain forget changes, restores and approvals.
func TestRefoldWithoutForgettingEqualsFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, allExtras)
		f := k.without(playbook.Selector{Source: "nowhere"})
		if f.Matched != 0 || len(f.Mixed) != 0 || f.Newest != k.newest() {
			t.Fatalf("matched %d, mixed %v, newest %d of %d", f.Matched, f.Mixed, f.Newest, k.newest())
		}
		requireEqual(t, k, "forgot nothing", &k.p, f.Playbook)
		forgot := uint64(0)
		for _, d := range k.deltas {
			if d.Forget != nil {
				forgot = d.Version
			}
		}
		for v := forgot; v <= k.newest(); v++ {
			requireEqual(t, k, fmt.Sprintf("at version %d, the last forgetting being %d", v, forgot), k.states[v], k.at(v))
		}
	})
}

// Every operation has one supporting reflection, and there are no restores. Then the result is the log without the
// forgotten operations, as a simpler fold computes it. Mixed bullets are also quarantined.
func TestForgettingMatchesSimpleFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, extras{})
		s := drawSelector(t, k)
		f := k.without(s)
		want, got := simpleFold(k, s), map[playbook.BulletID]simpleBullet{}
		for id, b := range bulletsOf(f.Playbook) {
			if slices.Contains(f.Mixed, id) {
				if b.Shown() {
					t.Fatalf("%s is mixed and shown", id)
				}
				b.Status = want[id].status
			}
			c := b.CurrentExperiment()
			got[id] = simpleBullet{
				b.Content,
				[3]int{b.Helpful, b.Harmful, b.Neutral},
				b.Status, b.Pinned,
				[3]playbook.Scores{c.Shown, c.Withheld, c.Cited},
				c.Confirmations, backing(b.SupportBySource), c.Standing, c.Recent, b.Contests,
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(simpleBullet{})); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%v", diff, k)
		}
	})
}

// simpleBullet is a bullet of the simple fold.
type simpleBullet struct {
	content string
	votes   [3]int
	status  playbook.Status
	pinned  bool
	seen    [3]playbook.Scores // shown, withheld, cited
	asked   int
	backing string

	standing playbook.Standing
	recent   string // + and -, oldest first; the tests have fewer outcomes than the limit
	contests playbook.BulletID
}

// backing returns the backing of a bullet, without sources whose count is 0.
func backing(list []playbook.SourceSupport) string {
	n := map[string]int{}
	for _, b := range list {
		if b.Count > 0 {
			n[b.Source] = b.Count
		}
	}
	return fmt.Sprint(n)
}

// simpleState is a bullet during the simple fold.
type simpleState struct {
	simpleBullet
	by    map[string]int  // backing by source
	later []backingChange // while the bullet is dropped
}

type backingChange struct {
	source string
	by     int
}

func (b *simpleState) back(is bool, x backingChange) {
	if b.later = append(b.later, x); !is {
		return
	}
	for _, x := range b.later {
		b.by[x.source] = max(0, b.by[x.source]+x.by)
	}
	b.later = nil
}

func (b *simpleState) says(op playbook.Op) {
	if b.content != op.Content {
		b.content, b.seen, b.asked = op.Content, [3]playbook.Scores{}, 0
		b.standing, b.recent = op.Standing, ""
	}
}

// decide applies a decision on the status and standing.
func (b *simpleState) decide(op playbook.Op) {
	if b.status = op.Status; op.Status == playbook.Retired {
		b.asked = 0
	}
	if op.Restart {
		b.seen, b.standing, b.recent = [3]playbook.Scores{}, "", ""
	}
	b.standing = stdcmp.Or(op.Standing, b.standing)
}

func (b *simpleState) saw(seen playbook.Exposure) {
	mark := "-"
	if seen.Score >= 5 {
		mark = "+"
	}
	switch i := strings.LastIndex(b.recent, mark); {
	case !seen.Cited:
	case !seen.Undo:
		b.recent += mark
	case i >= 0:
		b.recent = b.recent[:i] + b.recent[i+1:]
	}
	isIn := [3]bool{seen.Arm == playbook.ArmShown, seen.Arm == playbook.ArmWithheld, seen.Cited}
	for i := range b.seen {
		switch scores := &b.seen[i]; {
		case !isIn[i]:
		case seen.Undo:
			scores[seen.Score] = max(0, scores[seen.Score]-1)
		default:
			scores[seen.Score]++
		}
	}
}

// simpleFold folds a log of operations with one supporting reflection each, without the forgotten operations. A
// dropped bullet is revived if another reflection changes its content. Then earlier operations on it count. simpleFold does not use package playbook's Apply.
func simpleFold(k *logWriter, s playbook.Selector) map[playbook.BulletID]simpleBullet {
	all, ghosts := map[playbook.BulletID]*simpleState{}, map[playbook.BulletID]*simpleState{}
	for source, op := range remainingOps(k, s, func(op playbook.Op) {
		if op.Kind == playbook.Add {
			ghosts[op.Bullet] = &simpleState{simpleBullet: simpleBullet{
				content: op.Content, status: stdcmp.Or(op.Status, playbook.Active), standing: op.Standing, contests: op.Contests,
			}, by: map[string]int{}}
		}
	}) {
		b := all[op.Bullet]
		asked := op.Kind == playbook.Update
		revived := false
		if ghost := ghosts[op.Bullet]; b == nil && ghost != nil {
			said := op.Kind == playbook.Confirm
			if said && op.Reason != ghost.content { // other content, which a person must approve
				ghost.status = stdcmp.Or(ghost.status, playbook.Active)
			}
			if b = ghost; op.Kind == playbook.Add || asked || said {
				all[op.Bullet], revived = ghost, true
			}
		}
		switch {
		case b == nil:
		case op.Kind == playbook.Add, revived && !asked:
			b.later = append([]backingChange{{source, 1}}, b.later...) // without the forgotten support, this would have been the Add
			b.back(true, backingChange{})
		case revived:
			b.back(true, backingChange{})
		}
		switch {
		case b == nil:
		case asked:
			b.says(op)
		case op.Kind == playbook.Tag:
			for i, n := range [...]int{op.Helpful, op.Harmful, op.Neutral} {
				b.votes[i] += n
			}
			b.back(all[op.Bullet] != nil, backingChange{source, 1})
		case op.Kind == playbook.Retag:
			from := slices.Index([]playbook.Vote{playbook.Helpful, playbook.Harmful, playbook.Neutral}, op.OldVote)
			b.votes[from] = max(0, b.votes[from]-1)
			if b.votes[1] += op.Harmful; op.Harmful == 0 {
				b.back(all[op.Bullet] != nil, backingChange{source, -1})
			}
		case op.Kind == playbook.AddExposures && op.Reason == b.content:
			b.saw(op.Exposures[0])
		case op.Kind == playbook.Confirm && !revived && op.Reason == b.content:
			b.asked++
			b.back(true, backingChange{source, 1})
		case op.Kind == playbook.Remove:
			delete(all, op.Bullet)
			delete(ghosts, op.Bullet)
		case op.Kind == playbook.SetStatus:
			b.decide(op)
		case op.Kind == playbook.Pin:
			b.pinned = op.Pinned
		case op.Kind == playbook.Merge && all[op.Bullet] != nil:
			b.says(op)
			for _, id := range op.Sources {
				if from := all[id]; from != nil {
					for i := range b.votes {
						b.votes[i] += from.votes[i]
					}
					for source, n := range from.by {
						b.by[source] += n
					}
				}
				delete(all, id)
				delete(ghosts, id)
			}
		}
	}
	out := map[playbook.BulletID]simpleBullet{}
	for id, b := range all {
		b.back(true, backingChange{})
		delete(b.by, "")
		maps.DeleteFunc(b.by, func(_ string, n int) bool { return n == 0 })
		b.backing = fmt.Sprint(b.by)
		out[id] = b.simpleBullet
	}
	return out
}

// remainingOps yields the operations without forgotten support, with the source of their support. Each is called for
// every operation, in order.
func remainingOps(k *logWriter, s playbook.Selector, each func(playbook.Op)) iter.Seq2[string, playbook.Op] {
	return func(yield func(string, playbook.Op) bool) {
		for _, d := range wholeChanges(k.deltas) {
			for _, op := range d.Ops {
				source := ""
				if len(op.Support) == 1 && d.Covers[op.Support[0]].Evidence != nil {
					source = d.Covers[op.Support[0]].Evidence.Source
				}
				if each(op); len(op.Support) == 1 && s.Matches(d.Covers[op.Support[0]].Evidence) {
					continue
				}
				if !yield(source, op) {
					return
				}
			}
		}
	}
}

// wholeChanges joins the parts of changes and omits incomplete changes.
func wholeChanges(deltas []*playbook.Delta) (changes []*playbook.Delta) {
	var open []*playbook.Delta
	for _, d := range deltas {
		if len(open) > 0 && open[0].ChangeID != d.ChangeID {
			open = nil
		}
		if d.More {
			open = append(open, d)
			continue
		}
		all := *d
		all.Ops = nil
		for _, part := range append(open, d) {
			all.Ops = append(all.Ops, part.Ops...)
		}
		changes, open = append(changes, &all), nil
	}
	return changes
}

// contentStatus describes the support of a content in the log.
type contentStatus struct {
	clean, left        bool            // some proposal kept all its support; some kept a part
	forgottenBy        map[uint64]bool // versions that forgot support of operations with the content
	repeatsForgottenBy map[uint64]bool // versions that forgot support of its repetitions
}

func contentStatuses(k *logWriter, now playbook.Selector) map[string]*contentStatus {
	type forget struct {
		what playbook.Selector
		at   uint64
	}
	var forgets []forget
	for _, d := range k.deltas {
		if d.Forget != nil {
			forgets = append(forgets, forget{*d.Forget, d.Version})
		}
	}
	forgets = append(forgets, forget{now, k.newest() + 1})
	all := map[string]*contentStatus{}
	for _, d := range wholeChanges(k.deltas) {
		if d.Forget != nil || d.RestoredVersion != nil {
			continue
		}
		look := func(content string, support []int, said bool) {
			if all[content] == nil {
				all[content] = &contentStatus{forgottenBy: map[uint64]bool{}, repeatsForgottenBy: map[uint64]bool{}}
			}
			s, left := all[content], 0
			by := s.forgottenBy
			if said {
				by = s.repeatsForgottenBy
			}
			for _, i := range support {
				f := slices.IndexFunc(forgets, func(f forget) bool { return d.Version < f.at && f.what.Matches(d.Covers[i].Evidence) })
				if f < 0 {
					left++
				} else {
					by[forgets[f].at] = true
				}
			}
			s.clean = s.clean || left == len(support) || said && left > 0
			s.left = s.left || left > 0 && !said
		}
		for _, op := range d.Ops {
			if op.Content != "" {
				look(op.Content, op.Support, false)
			}
			if op.Kind == playbook.Confirm {
				look(op.Reason, op.Support, true)
			}
		}
		for _, j := range d.Rejected {
			if j.DuplicateOf != "" {
				look(j.Op.Content, j.Op.Support, true)
			}
		}
	}
	return all
}

// Content with forgotten support is shown only if another reflection proposed it too, or if a person approved it after
// the forget change.
func TestForgottenContentIsNotShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, allExtras)
		s := drawSelector(t, k)
		f := k.without(s)
		checkShownContent(t, k, s, f.Playbook)
	})
}

func checkShownContent(t *rapid.T, k *logWriter, s playbook.Selector, p *playbook.Playbook) {
	t.Helper()
	approved := map[playbook.BulletID]uint64{}
	for _, d := range wholeChanges(k.deltas) {
		for _, op := range d.Ops {
			if d.Author == "ann" && op.Kind == playbook.SetStatus && op.Status == playbook.Active {
				approved[op.Bullet] = d.Version
			}
		}
	}
	all := contentStatuses(k, s)
	for b := range p.All() {
		if !b.Shown() {
			continue
		}
		on := all[b.Content]
		if on == nil {
			t.Fatalf("%s has content %q, which is not in the log", b.ID, b.Content)
		}
		if !on.left {
			maps.Copy(on.forgottenBy, on.repeatsForgottenBy)
		}
		for at := range on.forgottenBy {
			if !on.clean && approved[b.ID] < at {
				t.Fatalf("%s is shown with content %q, but version %d forgot its support:\n%s", b.ID, b.Content, at, k)
			}
		}
	}
}

// Also if a person approved in between a bullet that the first forget change quarantined.
func TestForgettingIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, allExtras)
		s := drawSelector(t, k)
		f := k.without(s)
		if !k.forget(s, 1) {
			return
		}
		requireEqual(t, k, "the forgetting, committed", f.Playbook, &k.p)
		for range rapid.IntRange(0, 3).Draw(t, "edits") {
			k.edit("ann")
			k.propose(k.drawOp(t, allExtras, true, []int{0}))
			k.commit(1)
		}
		again := k.without(s)
		if again.Matched != 0 || len(again.Mixed) != 0 {
			t.Fatalf("once more: matched %d, mixed %v, want nothing", again.Matched, again.Mixed)
		}
		requireEqual(t, k, "once more", &k.p, again.Playbook)
	})
}

// withoutCaseNumbers removes the numbers of cases: each forget change that changes a content increases them.
func withoutCaseNumbers(all map[playbook.BulletID]playbook.Bullet) map[playbook.BulletID]playbook.Bullet {
	for id, b := range all {
		c := b.CurrentExperiment()
		if b.Experiment, c.Number = nil, 0; !cmp.Equal(c, playbook.Experiment{}) {
			b.Experiment = &c
		}
		all[id] = b
	}
	return all
}

// Only quarantine and the numbers of cases may differ.
func TestForgettingsCommute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, allExtras)
		one, two := drawSelector(t, k), drawSelector(t, k)
		other := *k
		other.deltas, other.states, other.p = slices.Clone(k.deltas), slices.Clone(k.states), *k.p.Clone()
		k.forget(one, 1)
		k.forget(two, 1)
		other.forget(two, 1)
		other.forget(one, 1)
		a, b := withoutCaseNumbers(bulletsOf(&k.p)), withoutCaseNumbers(bulletsOf(&other.p))
		for id, x := range a {
			if y, ok := b[id]; ok && x.Status != y.Status && (x.Status == playbook.Quarantined || y.Status == playbook.Quarantined) {
				y.Status = x.Status
				b[id] = y
			}
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("the order changed the result:\n%s", diff)
		}
	})
}

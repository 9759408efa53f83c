package history_test

import (
	stdcmp "cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// equal compares two states, rules included.
func equal(t rapid.TB, k *desk, what string, want, got *playbook.Playbook) {
	t.Helper()
	if diff := cmp.Diff(bulletsOf(want), bulletsOf(got)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s\n%v", what, diff, k)
	}
	if want.StateHash() != got.StateHash() || len(history.Between(want, got)) > 0 {
		t.Fatalf("%s: the same bullets have another hash or a difference", what)
	}
}

// TestARefoldWithNothingToForgetIsTheFold, whatever was forgotten, restored and approved before.
func TestARefoldWithNothingToForgetIsTheFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t, everything)
		f := k.without(playbook.Selector{Source: "nowhere"})
		if f.Matched != 0 || len(f.Mixed) != 0 || f.Newest != k.newest() {
			t.Fatalf("matched %d, mixed %v, newest %d of %d", f.Matched, f.Mixed, f.Newest, k.newest())
		}
		equal(t, k, "forgot nothing", &k.p, f.Playbook)
		forgot := uint64(0)
		for _, d := range k.deltas {
			if d.Forgets != nil {
				forgot = d.Version
			}
		}
		for v := forgot; v <= k.newest(); v++ {
			equal(t, k, fmt.Sprintf("at version %d, the last forgetting being %d", v, forgot), k.states[v], k.at(v))
		}
	})
}

// TestForgettingIsNeverHavingLearned: where every operation rests on one reflection and nothing was restored, the outcome
// is that of the log without their operations, as another, simpler fold has it. What is mixed is in quarantine besides.
func TestForgettingIsNeverHavingLearned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t, extras{rules: true})
		s := drawSelector(t, k)
		f := k.without(s)
		want, got := never(k, s), map[playbook.BulletID]plain{}
		for id, b := range bulletsOf(f.Playbook) {
			if slices.Contains(f.Mixed, id) {
				if b.Shown() {
					t.Fatalf("%s is mixed and shown", id)
				}
				b.Status = want[id].status
			}
			if b.Rule != nil {
				b.Content = "rule " + b.Rule.Key // the counts in it come with the recount
			}
			c := b.TheCase()
			got[id] = plain{
				b.Content,
				[3]int{b.Helpful, b.Harmful, b.Neutral},
				b.Status, b.Pinned,
				[3]playbook.Scores{c.Shown, c.Withheld, c.Open},
				c.Seconded, backing(b.Backing),
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(plain{})); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%v", diff, k)
		}
	})
}

// plain is a bullet as the simple fold has it.
type plain struct {
	content string
	votes   [3]int
	status  playbook.Status
	pinned  bool
	seen    [3]playbook.Scores // shown, withheld, open
	asked   int
	backing string
}

// backing is what backs a bullet, sources that take nothing aside.
func backing(list []playbook.Backing) string {
	n := map[string]int{}
	for _, b := range list {
		if b.N > 0 {
			n[b.Source] = b.N
		}
	}
	return fmt.Sprint(n)
}

// sketch is a bullet of the simple fold on its way.
type sketch struct {
	plain
	by    map[string]int // what backs it, by source
	later []backs        // while it never was
}

type backs struct {
	source string
	by     int
}

func (b *sketch) back(is bool, x backs) {
	if b.later = append(b.later, x); !is {
		return
	}
	for _, x := range b.later {
		b.by[x.source] = max(0, b.by[x.source]+x.by)
	}
	b.later = nil
}

func (b *sketch) says(content string) {
	if b.content != content {
		b.content, b.seen, b.asked = content, [3]playbook.Scores{}, 0
	}
}

func (b *sketch) saw(seen playbook.Seen) {
	scores := &b.seen[slices.Index([]playbook.Arm{playbook.ArmShown, playbook.ArmWithheld, playbook.ArmOpen}, seen.Arm)]
	if seen.Undo {
		scores[seen.Score] = max(0, scores[seen.Score]-1)
	} else {
		scores[seen.Score]++
	}
}

// never is a log of operations with one reflection each, without those of some. A bullet that never was is, after all,
// when something else changes its words, or sees what its rule sees; what was done to it before then counts. It knows
// nothing of package playbook's Apply.
func never(k *desk, s playbook.Selector) map[playbook.BulletID]plain {
	all, ghosts := map[playbook.BulletID]*sketch{}, map[playbook.BulletID]*sketch{}
	ruled := map[playbook.BulletID]bool{}
	for source, op := range surviving(k, s, func(op playbook.Op) {
		if op.Kind == playbook.Add {
			ruled[op.Bullet] = op.Rule != nil
			ghosts[op.Bullet] = &sketch{plain: plain{content: op.Content, status: stdcmp.Or(op.Status, playbook.Active)}, by: map[string]int{}}
		}
	}) {
		b := all[op.Bullet]
		asked := op.Kind == playbook.Update && op.Rule == nil // by somebody, and it is no rule's any more
		revived := false
		if ghost := ghosts[op.Bullet]; b == nil && ghost != nil {
			said := op.Kind == playbook.Second
			if said && op.Reason != ghost.content { // in other words, which somebody has to look at
				ghost.status = stdcmp.Or(ghost.status, playbook.Active)
			}
			if b = ghost; op.Kind == playbook.Add || asked || said || op.Kind == playbook.Tag && ruled[op.Bullet] {
				all[op.Bullet], revived = ghost, true
			}
		}
		switch {
		case b == nil:
		case op.Kind == playbook.Add, revived && !asked:
			b.later = append([]backs{{source, 1}}, b.later...) // who would have been the first
			b.back(true, backs{})
		case revived:
			b.back(true, backs{})
		}
		switch {
		case b == nil:
		case asked:
			b.says(op.Content)
			ruled[op.Bullet] = false
		case op.Kind == playbook.Tag:
			for i, n := range [...]int{op.Helpful, op.Harmful, op.Neutral} {
				b.votes[i] += n
			}
			b.back(all[op.Bullet] != nil, backs{source, 1})
		case op.Kind == playbook.Retag:
			from := slices.Index([]playbook.Vote{playbook.Helpful, playbook.Harmful, playbook.Neutral}, op.Was)
			b.votes[from] = max(0, b.votes[from]-1)
			if b.votes[1] += op.Harmful; op.Harmful == 0 {
				b.back(all[op.Bullet] != nil, backs{source, -1})
			}
		case op.Kind == playbook.Trial && (op.Reason == b.content || ruled[op.Bullet] && "rule "+k.key(op.Bullet) == op.Reason):
			b.saw(op.Seen[0])
		case op.Kind == playbook.Second && !revived && op.Reason == b.content:
			b.asked++
			b.back(true, backs{source, 1})
		case op.Kind == playbook.Remove:
			delete(all, op.Bullet)
			delete(ghosts, op.Bullet)
		case op.Kind == playbook.SetStatus:
			if b.status = op.Status; op.Status == playbook.Retired {
				b.asked = 0
			}
		case op.Kind == playbook.Pin:
			b.pinned = op.Pinned
		case op.Kind == playbook.Merge && all[op.Bullet] != nil:
			b.says(op.Content)
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
	out := map[playbook.BulletID]plain{}
	for id, b := range all {
		b.back(true, backs{})
		delete(b.by, "")
		maps.DeleteFunc(b.by, func(_ string, n int) bool { return n == 0 })
		b.backing = fmt.Sprint(b.by)
		out[id] = b.plain
	}
	return out
}

// key is what the rule counts that made a bullet.
func (k *desk) key(id playbook.BulletID) string {
	for _, d := range k.deltas {
		for _, op := range d.Ops {
			if op.Kind == playbook.Add && op.Bullet == id && op.Rule != nil {
				return op.Rule.Key
			}
		}
	}
	return ""
}

// surviving are the operations that rest on nothing that is forgotten. Each sees every operation as its turn comes.
// With each comes the source of what it rests on.
func surviving(k *desk, s playbook.Selector, each func(playbook.Op)) iter.Seq2[string, playbook.Op] {
	return func(yield func(string, playbook.Op) bool) {
		for _, d := range whole(k.deltas) {
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

// whole puts the parts of changes together and leaves out those of changes that did not come to their end.
func whole(deltas []*playbook.Delta) (changes []*playbook.Delta) {
	var open []*playbook.Delta
	for _, d := range deltas {
		if len(open) > 0 && open[0].Change != d.Change {
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

// standing says of every text in the log whether something that is not forgotten stands behind all of it, and which
// forgettings take from it. By the last one of them people may have approved it since.
type standing struct {
	clean, left bool            // whether nothing is missing of what stands behind it, or not all
	by          map[uint64]bool // which forgettings took from what wrote it
	saidBy      map[uint64]bool // and from what said it again, on which it rests when nothing is left of that
}

func standings(k *desk, now playbook.Selector) map[string]*standing {
	type forget struct {
		what playbook.Selector
		at   uint64
	}
	var forgets []forget
	for _, d := range k.deltas {
		if d.Forgets != nil {
			forgets = append(forgets, forget{*d.Forgets, d.Version})
		}
	}
	forgets = append(forgets, forget{now, k.newest() + 1})
	all := map[string]*standing{}
	for _, d := range whole(k.deltas) {
		if d.Forgets != nil || d.Restores != nil {
			continue
		}
		look := func(content string, support []int, said bool) {
			if all[content] == nil {
				all[content] = &standing{by: map[uint64]bool{}, saidBy: map[uint64]bool{}}
			}
			s, left := all[content], 0
			by := s.by
			if said {
				by = s.saidBy
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
			if op.Content != "" && op.Rule == nil {
				look(op.Content, op.Support, false)
			}
			if op.Kind == playbook.Second {
				look(op.Reason, op.Support, true)
			}
		}
		for _, j := range d.Rejected {
			if j.Same != "" {
				look(j.Op.Content, j.Op.Support, true)
			}
		}
	}
	return all
}

// TestNothingShownRestsOnWhatIsForgotten: no text that a forgotten execution had a part in is shown, unless something
// else says it as well, or a person approved it after its forgetting.
func TestNothingShownRestsOnWhatIsForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t, everything)
		s := drawSelector(t, k)
		f := k.without(s)
		checkStanding(t, k, s, f.Playbook)
	})
}

func checkStanding(t *rapid.T, k *desk, s playbook.Selector, p *playbook.Playbook) {
	t.Helper()
	approved := map[playbook.BulletID]uint64{}
	for _, d := range whole(k.deltas) {
		for _, op := range d.Ops {
			if d.Author == "ann" && op.Kind == playbook.SetStatus && op.Status == playbook.Active {
				approved[op.Bullet] = d.Version
			}
		}
	}
	all := standings(k, s)
	for b := range p.All() {
		if b.Rule != nil || !b.Shown() {
			continue
		}
		on := all[b.Content]
		if on == nil {
			t.Fatalf("%s says %q, which nothing in the log does", b.ID, b.Content)
		}
		if !on.left {
			maps.Copy(on.by, on.saidBy)
		}
		for at := range on.by {
			if !on.clean && approved[b.ID] < at {
				t.Fatalf("%s is shown and says %q, which rests on what version %d forgot:\n%s", b.ID, b.Content, at, k)
			}
		}
	}
}

// TestForgettingTwiceIsForgettingOnce, also when a person approved in between what the first one quarantined.
func TestForgettingTwiceIsForgettingOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t, everything)
		s := drawSelector(t, k)
		f := k.without(s)
		if !k.forget(s, 1) {
			return
		}
		equalButRules(t, k, "the forgetting, committed", f.Playbook, &k.p)
		for range rapid.IntRange(0, 3).Draw(t, "edits") {
			k.edit("ann")
			k.do(k.drawOp(t, everything, true, []int{0}))
			k.commit(1)
		}
		again := k.without(s)
		if again.Matched != 0 || len(again.Mixed) != 0 {
			t.Fatalf("once more: matched %d, mixed %v, want nothing", again.Matched, again.Mixed)
		}
		equal(t, k, "once more", &k.p, again.Playbook)
	})
}

// equalButRules compares without the words of rules, which are brought in line with their counts.
func equalButRules(t rapid.TB, k *desk, what string, want, got *playbook.Playbook) {
	t.Helper()
	if diff := cmp.Diff(withoutRuleWords(want), withoutRuleWords(got)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s\n%v", what, diff, k)
	}
}

func withoutRuleWords(p *playbook.Playbook) map[playbook.BulletID]playbook.Bullet {
	all := bulletsOf(p)
	for id, b := range all {
		if b.Rule != nil {
			b.Content = ""
			all[id] = b
		}
	}
	return all
}

// unnumbered takes the numbers from cases: each forgetting that changes words counts on.
func unnumbered(all map[playbook.BulletID]playbook.Bullet) map[playbook.BulletID]playbook.Bullet {
	for id, b := range all {
		c := b.TheCase()
		if b.Case, c.Number = nil, 0; !cmp.Equal(c, playbook.Case{}) {
			b.Case = &c
		}
		all[id] = b
	}
	return all
}

// TestForgettingsCommute up to who is in quarantine, and to the numbers of cases.
func TestForgettingsCommute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t, everything)
		one, two := drawSelector(t, k), drawSelector(t, k)
		other := *k
		other.deltas, other.states, other.p = slices.Clone(k.deltas), slices.Clone(k.states), *k.p.Clone()
		k.forget(one, 1)
		k.forget(two, 1)
		other.forget(two, 1)
		other.forget(one, 1)
		a, b := unnumbered(withoutRuleWords(&k.p)), unnumbered(withoutRuleWords(&other.p))
		for id, x := range a {
			if y, ok := b[id]; ok && x.Status != y.Status && (x.Status == playbook.Quarantined || y.Status == playbook.Quarantined) {
				y.Status = x.Status
				b[id] = y
			}
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("another order, another outcome:\n%s", diff)
		}
	})
}

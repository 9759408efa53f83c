package selection_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/text"
)

func rendered(bullets ...*playbook.Bullet) int {
	return chat.Tokens(text.Clean(playbook.RenderPrompt(sorted(bullets), false)))
}

// sorted returns bullets in the order of a prompt.
func sorted(bullets []*playbook.Bullet) []*playbook.Bullet {
	return slices.SortedStableFunc(slices.Values(bullets), func(a, b *playbook.Bullet) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Section, b.Section), cmp.Compare(a.ID, b.ID))
	})
}

// place returns the part of a prompt that a bullet belongs to.
func place(b *playbook.Bullet) int {
	switch e := b.CurrentExperiment(); {
	case e.Standing == playbook.StandingSuspect:
		return 3
	case b.Status == playbook.Probation:
		return 2
	case e.Standing == playbook.StandingNew:
		return 1
	}
	return 0
}

// rounding is the maximum difference between the tokens of these bullets and of their lines: one for each line, as many headers, the title, and the
// line feed before a header that could have been the first line.
func rounding(bullets []*playbook.Bullet) int { return 2*len(bullets) + 2 }

// TestRoomOfHeaders: a line feed before a header is half of an empty line, so a header costs a token less than alone. So many sections
// need fewer tokens than their headers alone.
func TestRoomOfHeaders(t *testing.T) {
	t.Parallel()
	p := playbook.Restore(7, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range 80 {
			b := &playbook.Bullet{
				ID: playbook.BulletID(fmt.Sprintf("b-%d", 10+i)), Section: fmt.Sprintf("part aaaaaa %d", 10+i), Content: fmt.Sprintf("part aaaaaaa %d", 10+i),
			}
			if !yield(b) {
				return
			}
		}
	})
	all := candidates(p)
	s := indexOf(p).Select(selection.Options{Tokens: rendered(all[:39]...) + rounding(all[:39]), Seed: "s", Weights: selection.Weights{Effectiveness: 1}})
	if len(s.Bullets) < 39 {
		t.Errorf("got %d bullets, want 39", len(s.Bullets))
	}
}

// TestSelectProperties holds for any playbook and any options.
func TestSelectProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, o := drawBook(t), drawOptions(t)
		all := candidates(p)
		if rapid.Bool().Draw(t, "just about all") {
			o.Tokens = rendered(all...) + rapid.IntRange(-2, 2).Draw(t, "more")
		}
		s := indexOf(p).Select(o)

		if got := rendered(s.Bullets...); got != s.Tokens || got > max(0, o.Tokens) {
			t.Fatalf("%d tokens are rendered, %d are said, %d are allowed", got, s.Tokens, o.Tokens)
		}
		pinned, scores := 0, map[playbook.BulletID]events.BulletScore{}
		for _, sc := range s.Scores {
			scores[sc.ID] = sc
		}
		for i, b := range s.Bullets {
			if !b.Shown() || p.Bullet(b.ID) != b {
				t.Fatalf("%s is %q", b.ID, b.Status)
			}
			if slices.Index(s.Bullets, b) != i {
				t.Fatalf("%s is shown twice", b.ID)
			}
			if b.Pinned {
				pinned++
			}
			if i > 0 {
				if a := s.Bullets[i-1]; sorted([]*playbook.Bullet{a, b})[0] != a {
					t.Fatalf("%s of %q comes before %s of %q", a.ID, a.Section, b.ID, b.Section)
				}
			}
			if !scores[b.ID].Shown {
				t.Fatalf("%s is shown, and its score is %+v", b.ID, scores[b.ID])
			}
			if part := s.Parts[i]; part.Ref != string(b.ID) || part.Kind != events.PartBullet || (part.Why == "pinned") != b.Pinned {
				t.Fatalf("%s is part %+v", b.ID, part)
			}
		}
		if o.MaxBullets > 0 && len(s.Bullets) > max(o.MaxBullets, pinned) {
			t.Fatalf("%d bullets, %d of them pinned, want %d", len(s.Bullets), pinned, o.MaxBullets)
		}
		checkLeft(t, o, s, all)
		checkFull(t, o, s, all)
	})
}

// checkLeft checks that every bullet is shown or reported as omitted.
func checkLeft(t *rapid.T, o selection.Options, s selection.Selection, all []*playbook.Bullet) {
	left := 0
	for _, l := range s.Left {
		left += l.Count
		if l.Kind != events.PartBullet || l.Why == "" || l.Count == 0 || len(l.Refs) != min(l.Count, 10) || l.Tokens < l.Count {
			t.Fatalf("left out: %+v", l)
		}
		if o.MaxBullets <= 0 && strings.HasPrefix(l.Why, "not among the best") {
			t.Fatalf("any number may be shown, and %q", l.Why)
		}
	}
	if len(s.Bullets)+left != len(all) || len(s.Bullets) != len(s.Parts) {
		t.Fatalf("%d shown as %d parts, %d left out, %d there", len(s.Bullets), len(s.Parts), left, len(all))
	}
	if len(s.Scores) != len(all) { // fewer than a hundred
		t.Fatalf("%d scores of %d bullets", len(s.Scores), len(all))
	}
	for i, sc := range s.Scores {
		if sc.Shown != (i < len(s.Bullets)) {
			t.Fatalf("score %d is %+v", i, sc)
		}
		for _, part := range []float64{sc.Effectiveness, sc.Recency, sc.Relevance, sc.Total} {
			if !(part >= 0 && part <= 1.0000001) {
				t.Fatalf("score %d is %+v", i, sc)
			}
		}
	}
}

// checkFull checks that no omitted bullet would fit in tokens and in number.
func checkFull(t *rapid.T, o selection.Options, s selection.Selection, all []*playbook.Bullet) {
	if enough := o.MaxBullets <= 0 || len(all) <= o.MaxBullets; enough && rendered(all...) <= o.Tokens && len(s.Bullets) != len(all) {
		t.Fatalf("%d bullets of %d, where all are %d tokens", len(s.Bullets), len(all), rendered(all...))
	}
	pinned := slices.DeleteFunc(slices.Clone(all), func(b *playbook.Bullet) bool { return !b.Pinned })
	pinsFit := rendered(pinned...)+rounding(pinned) <= o.Tokens
	for _, b := range all {
		if slices.Contains(s.Bullets, b) {
			continue
		}
		if b.Pinned && pinsFit {
			t.Fatalf("%s is pinned and left out", b.ID)
		}
		more := append(slices.Clone(s.Bullets), b)
		if room := o.MaxBullets <= 0 || len(s.Bullets) < o.MaxBullets || b.Pinned; room && rendered(more...)+rounding(more) <= o.Tokens {
			t.Fatalf("%s is left out, with it there are %d bullets of %d and %d tokens of %d", b.ID, len(more), o.MaxBullets, rendered(more...), o.Tokens)
		}
	}
}

// TestUpdatedIndexEqualsNewIndex checks that an updated index selects like a new one, and that Update reports all
// changes.
func TestUpdatedIndexEqualsNewIndex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := selection.NewIndex(false)
		beside := map[playbook.BulletID]*playbook.Bullet{}
		bullets := map[playbook.BulletID]*playbook.Bullet{}
		kept := new(playbook.Playbook) // at each version, so that it knows its changes
		for version := range rapid.Uint64Range(1, 6).Draw(t, "versions") {
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				id := playbook.BulletID(fmt.Sprintf("b-%d", rapid.IntRange(0, 11).Draw(t, "id")))
				switch old := bullets[id]; {
				case old != nil && rapid.Bool().Draw(t, "removed"):
					delete(bullets, id)
				case old != nil && rapid.Bool().Draw(t, "voted"):
					b := *old
					b.Helpful, b.LastUsed = 3, noon
					bullets[id] = &b
				default:
					bullets[id] = drawBullet(t, id)
				}
			}
			p := playbook.Restore(version, 0, func(yield func(*playbook.Bullet) bool) {
				for _, b := range bullets {
					if !yield(b) {
						return
					}
				}
			})

			changes := maps.Clone(bullets)
			for b := range kept.All() {
				if bullets[b.ID] == b {
					delete(changes, b.ID)
				} else if bullets[b.ID] == nil {
					changes[b.ID] = nil
				}
			}
			if !kept.ApplyChanges(version, 0, changes, p.Len(), p.Checksum()) {
				t.Fatal("the changes do not give the playbook")
			}
			if !rapid.Bool().Draw(t, "read all bullets") {
				p = kept
			}

			changed, dropped := x.Update(p)
			for _, b := range changed {
				if beside[b.ID] == b {
					t.Fatalf("%s is said to be changed", b.ID)
				}
				beside[b.ID] = b
			}
			for _, id := range dropped {
				if beside[id] == nil {
					t.Fatalf("%s is said to be dropped", id)
				}
				delete(beside, id)
			}
			if all := candidates(p); len(beside) != len(all) || x.Len() != len(all) {
				t.Fatalf("at version %d with %d bullets, %d beside it, want %d with %d", version, x.Len(), len(beside), version, len(all))
			}
			for id, b := range beside {
				if p.Bullet(id) != b {
					t.Fatalf("%s is another", id)
				}
			}
			o := drawOptions(t)
			if diff := gocmp.Diff(indexOf(p).Select(o), x.Select(o)); diff != "" {
				t.Fatalf("-made afresh +kept:\n%s", diff)
			}
			if changed, dropped := x.Update(p); len(changed)+len(dropped) > 0 {
				t.Fatalf("the same again: %d changed, %d dropped", len(changed), len(dropped))
			}
		}
	})
}

func TestConcurrentSelect(t *testing.T) {
	t.Parallel()
	p := library(500)
	x := indexOf(p)
	want := map[int]selection.Selection{}
	options := func(i int) selection.Options {
		return selection.Options{Now: noon, Tokens: 400 * (i + 1), MaxBullets: 20, Rankings: hits(p, 50*i), Explain: true}
	}
	for i := range 4 {
		want[i] = x.Select(options(i))
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 20 {
				if diff := gocmp.Diff(want[i], x.Select(options(i))); diff != "" {
					t.Errorf("-alone +beside others:\n%s", diff)
				}
			}
		})
	}
	all.Wait()
}

// TestPromptSizeIsConstant uses a playbook that is a hundred times as large.
func TestPromptSizeIsConstant(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 1000, 10_000} {
		s := indexOf(library(n)).Select(selection.Options{Now: noon, Tokens: 2000, MaxBullets: 30})
		if s.Tokens > 2000 || s.Tokens < 500 || len(s.Bullets) > 30 || len(s.Bullets) < 15 {
			t.Errorf("of %d bullets %d are shown, %d tokens", n, len(s.Bullets), s.Tokens)
		}
	}
}

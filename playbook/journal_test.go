package playbook_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// TestChangedSince checks, for random changes, that a reader of the changes knows the bullets of the playbook: after each of
// them, after many, after a copy by value, and with the mark of another playbook.
func TestChangedSince(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := new(playbook.Playbook)
		read, mark := map[playbook.BulletID]*playbook.Bullet{}, playbook.Mark{}
		incremental := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				p = p.Clone()
			case 1:
				moved := *p
				p = &moved
			case 2:
				size := rapid.SampledFrom([]int{1, 30_000}).Draw(t, "size")
				applyNext(t, p, playbook.Delta{Ops: slices.Repeat([]playbook.Op{{Kind: playbook.Tag, Bullet: "a-00001", Helpful: 1, Support: []int{0}}}, size)})
			default:
				id := playbook.MintID("a", uint64(rapid.IntRange(1, 5).Draw(t, "id")))
				kind := playbook.Remove
				if p.Bullet(id) == nil {
					kind = playbook.Add
				} else if rapid.Bool().Draw(t, "tag") {
					kind = playbook.Tag
				}
				applyNext(t, p, playbook.Delta{Ops: []playbook.Op{{Kind: kind, Bullet: id, Section: "a", Content: "text", Helpful: 1, Support: []int{0}}}})
			}
			if rapid.IntRange(0, 2).Draw(t, "read") > 0 {
				continue
			}
			ids, now, known := p.ChangedSince(mark)
			mark = now
			if !known {
				ids = slices.Collect(maps.Keys(read))
				for b := range p.All() {
					ids = append(ids, b.ID)
				}
			} else {
				incremental++
			}
			for _, id := range ids {
				if read[id] = p.Bullet(id); read[id] == nil {
					delete(read, id)
				}
			}
			want := map[playbook.BulletID]*playbook.Bullet{}
			for b := range p.All() {
				want[b.ID] = b
			}
			if !maps.Equal(read, want) {
				t.Fatalf("known %v: got %v, want %v", known, read, want)
			}
		}
		t.Logf("%d incremental reads", incremental)
	})
}

// TestChangedSinceIsIncremental checks that a small change of a large playbook is a short list.
func TestChangedSinceIsIncremental(t *testing.T) {
	t.Parallel()
	p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range 1000 {
			if !yield(&playbook.Bullet{ID: playbook.MintID("a", uint64(i+1)), Section: "a", Content: "text"}) {
				return
			}
		}
	})
	vote := func() {
		applyNext(t, p, playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: "a-00007", Helpful: 1, Support: []int{0}}}})
	}
	vote()
	_, mark, _ := p.ChangedSince(playbook.Mark{})
	vote()
	if ids, _, known := p.ChangedSince(mark); !known || !slices.Equal(ids, []playbook.BulletID{"a-00007"}) {
		t.Errorf("got %v, %v, want the bullet with the vote", ids, known)
	}
}

// applyNext applies a delta as the next version.
func applyNext(t rapid.TB, p *playbook.Playbook, d playbook.Delta) {
	t.Helper()
	d.Version, d.Covers = p.Version()+1, make([]playbook.Cover, 1)
	if _, err := p.Apply(&d); err != nil {
		t.Fatal(err)
	}
}

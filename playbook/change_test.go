package playbook_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
)

// drawLog draws a log of changes of one to four parts. Some changes are incomplete, and another change may follow. States
// has the bullets at each version, computed from complete changes only.
func drawLog(t *rapid.T) (log []*playbook.Delta, states []map[playbook.BulletID]playbook.Bullet) {
	p := new(playbook.Playbook) // takes each change as one delta
	states = append(states, contents(p))
	for i := range rapid.IntRange(1, 8).Draw(t, "changes") {
		whole := drawDelta(t, p)
		parts := rapid.IntRange(1, 4).Draw(t, "parts")
		stored := parts
		if parts > 1 && rapid.IntRange(0, 2).Draw(t, "breaks off") == 0 {
			stored = rapid.IntRange(1, parts-1).Draw(t, "stored")
		}
		cut := []int{0, len(whole.Ops)}
		for range parts - 1 {
			cut = append(cut, rapid.IntRange(0, len(whole.Ops)).Draw(t, "cut"))
		}
		slices.Sort(cut)
		for n := range stored {
			part := &playbook.Delta{Version: uint64(len(log) + 1), Time: whole.Time, Ops: whole.Ops[cut[n]:cut[n+1]], Covers: whole.Covers}
			if parts > 1 {
				part.ChangeID, part.More = fmt.Sprint("change ", i), n < parts-1
			}
			log = append(log, part)
			if n < parts-1 {
				states = append(states, states[len(states)-1])
			}
		}
		if stored == parts {
			apply(t, p, whole)
			states = append(states, contents(p))
		}
	}
	return log, states
}

// TestChangeInPartsTakesEffectCompletelyOrNot: a change may stop after any part, and the playbook may be a clone or
// restored in between.
func TestChangeInPartsTakesEffectCompletelyOrNot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log, states := drawLog(t)
		p := new(playbook.Playbook)
		opened := 0 // where the change began that is open
		for i, d := range log {
			switch rapid.IntRange(0, 4).Draw(t, "meanwhile") {
			case 0:
				p = p.Clone()
			case 1:
				stored := playbook.Restore(p.Version(), p.LastMinted(), p.All())
				for _, before := range log[opened:i] {
					stored.ResumeChange(before)
				}
				p = stored
			}
			apply(t, p, d)
			if diff := cmp.Diff(states[i+1], contents(p)); diff != "" {
				t.Fatalf("at version %d of %d (-want +got):\n%s", d.Version, len(log), diff)
			}
			if p.InChange() != d.More {
				t.Fatalf("version %d: open is %v, more to come %v", d.Version, p.InChange(), d.More)
			}
			if !d.More {
				opened = i + 1
			} else if i > 0 && log[i-1].ChangeID != d.ChangeID {
				opened = i
			}
			checkIndexes(t, p)
		}
	})
}

// TestRepeatedBatchIsAppliedOnce: a batch of deltas, which may begin or end within a change, is applied five times while
// the log continues.
func TestRepeatedBatchIsAppliedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log, states := drawLog(t)
		p := new(playbook.Playbook)
		for len(log) > int(p.Version()) {
			from := rapid.IntRange(0, int(p.Version())).Draw(t, "from")
			to := rapid.IntRange(int(p.Version())+1, len(log)).Draw(t, "to")
			for range 5 {
				for _, d := range log[from:to] {
					apply(t, p, d)
				}
				if diff := cmp.Diff(states[to], contents(p)); diff != "" {
					t.Fatalf("versions %d to %d (-want +got):\n%s", from+1, to, diff)
				}
			}
		}
	})
}

// TestIndependentChangesCommute: changes in parts put whole bullets and have no bullet in common.
func TestIndependentChangesCommute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := drawPlaybook(t)
		var changes [][]*playbook.Delta
		for i := range rapid.IntRange(2, 5).Draw(t, "changes") {
			var change []*playbook.Delta
			parts := rapid.IntRange(1, 3).Draw(t, "parts")
			for n := range parts {
				d := &playbook.Delta{ChangeID: fmt.Sprint("change ", i), More: n < parts-1}
				id := playbook.MintID("others", start.LastMinted()+uint64(10*i+n+1))
				b := &playbook.Bullet{ID: id, Section: "others", Content: drawContent.Draw(t, "content"), Helpful: drawVotes.Draw(t, "votes")}
				d.Ops = []playbook.Op{{Kind: playbook.Put, Bullet: id, PutBullet: b}, {Kind: playbook.Pin, Bullet: id, Pinned: rapid.Bool().Draw(t, "pinned")}}
				change = append(change, d)
			}
			changes = append(changes, change)
		}
		fold := func(changes [][]*playbook.Delta) *playbook.Playbook {
			p := start.Clone()
			for _, d := range slices.Concat(changes...) {
				d.Version = p.Version() + 1
				apply(t, p, d)
			}
			checkIndexes(t, p)
			return p
		}
		one := fold(changes)
		two := fold(rapid.Permutation(changes).Draw(t, "order"))
		if one.StateHash() != two.StateHash() || one.Checksum() != two.Checksum() || one.LastMinted() != two.LastMinted() {
			t.Fatal("another order gave another state")
		}
	})
}

// TestIDsNeverCollideAcrossWritersAndResumes: several writers mint ids from their state and commit with compare-and-swap.
// After a conflict a writer mints again on the newer state. Writers are restored from stored bullets, a view or the log.
func TestIDsNeverCollideAcrossWritersAndResumes(t *testing.T) {
	t.Parallel()
	foreign := rapid.SampledFrom([]playbook.BulletID{"misc-00009", "ctx-14", "99", "a-b-00030", "-7", "x-", "x-0x1f", "x-99999999999999999999999"})
	rapid.Check(t, func(t *rapid.T) {
		var log []*playbook.Delta
		catchUp := func(p *playbook.Playbook) {
			for _, d := range log[p.Version():] {
				apply(t, p, d)
			}
		}
		truth := new(playbook.Playbook)
		writers := []*playbook.Playbook{new(playbook.Playbook), new(playbook.Playbook), new(playbook.Playbook)}
		ever := map[playbook.BulletID]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "commits") {
			i := rapid.IntRange(0, len(writers)-1).Draw(t, "writer")
			switch rapid.IntRange(0, 5).Draw(t, "resumed") {
			case 0: // from the log
				writers[i] = new(playbook.Playbook)
			case 1: // from what another one stored
				w := writers[rapid.IntRange(0, len(writers)-1).Draw(t, "from")]
				writers[i] = playbook.Restore(w.Version(), w.LastMinted(), w.All())
			case 2: // from a view that changed bullets came in to
				view := map[playbook.BulletID]*playbook.Bullet{}
				for b := range truth.All() {
					view[b.ID] = b
				}
				writers[i] = new(playbook.Playbook)
				if !writers[i].ApplyChanges(truth.Version(), truth.LastMinted(), view, truth.Len(), truth.Checksum()) {
					t.Fatal("the view was refused")
				}
			}
			w := writers[i]
			mint := func() *playbook.Delta {
				d := &playbook.Delta{Version: w.Version() + 1}
				for n := range rapid.IntRange(1, 3).Draw(t, "adds") {
					section := drawSection.Draw(t, "section")
					id := playbook.MintID(section, w.LastMinted()+uint64(n)+1)
					d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Add, Bullet: id, Section: section, Content: "c"})
				}
				return d
			}
			d := mint()
			if w.Version() < truth.Version() { // lost the race
				catchUp(w)
				d = mint()
			}
			for _, op := range d.Ops {
				if ever[op.Bullet] {
					t.Fatalf("%s was assigned to a second bullet", op.Bullet)
				}
				ever[op.Bullet] = true
			}
			if id := foreign.Draw(t, "foreign"); !ever[id] && rapid.IntRange(0, 5).Draw(t, "import") == 0 {
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "others", Content: "c"}})
				ever[id] = true
			}
			if all := truth.Sorted(); len(all) > 0 && rapid.Bool().Draw(t, "remove") {
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Remove, Bullet: rapid.SampledFrom(all).Draw(t, "removed").ID})
			}
			log = append(log, d)
			size := truth.Len()
			apply(t, truth, d)
			catchUp(w)
			for _, op := range d.Ops {
				switch op.Kind {
				case playbook.Remove:
					size--
				default:
					size++
				}
			}
			if truth.Len() != size {
				t.Fatalf("got %d bullets, want %d: an operation had no effect", truth.Len(), size)
			}
			if w.LastMinted() != truth.LastMinted() || w.StateHash() != truth.StateHash() {
				t.Fatal("a resumed writer has another state than the log")
			}
		}
	})
}

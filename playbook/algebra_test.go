package playbook_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
)

// The generated logs use few ids, keys and contents, so that operations affect the same bullets.
var (
	drawContent = rapid.SampledFrom([]string{"call a before b", "Call A  before B", "callabeforeb", "is\nten", "is ten", "twelve"})
	drawSection = rapid.SampledFrom([]string{"others", "meta_strategies", "tool_use"})
	drawStatus  = rapid.SampledFrom([]playbook.Status{
		"", playbook.Active, playbook.Candidate, playbook.Probation, playbook.Retired, playbook.Quarantined,
	})
	drawStanding = rapid.SampledFrom([]playbook.Standing{
		"", playbook.StandingNew, playbook.StandingSuspect, playbook.StandingTrusted, playbook.StandingProven, playbook.StandingKept,
	})
	drawVotes = rapid.IntRange(0, 3)
)

// drawID draws the id of an existing, a removed or an unknown bullet.
func drawID(t *rapid.T, p *playbook.Playbook) playbook.BulletID {
	return playbook.MintID("others", rapid.Uint64Range(1, p.LastMinted()+1).Draw(t, "id"))
}

// drawAgainst draws the bullet that a new one corrects or contradicts, mostly none.
func drawAgainst(t *rapid.T, p *playbook.Playbook, label string) playbook.BulletID {
	if rapid.IntRange(0, 2).Draw(t, label) > 0 {
		return ""
	}
	return drawID(t, p)
}

func drawExposure(t *rapid.T) playbook.Exposure {
	s := playbook.Exposure{
		Arm:   rapid.SampledFrom([]playbook.Arm{playbook.ArmShown, playbook.ArmWithheld, playbook.ArmOpen}).Draw(t, "arm"),
		Score: rapid.IntRange(0, playbook.MaxScore).Draw(t, "score"), Undo: rapid.Bool().Draw(t, "undo"),
	}
	s.Cited = s.Arm == playbook.ArmOpen || s.Arm == playbook.ArmShown && rapid.Bool().Draw(t, "cited")
	return s
}

func drawOp(t *rapid.T, p *playbook.Playbook, minted *uint64) playbook.Op {
	kinds := []playbook.OpKind{
		playbook.Add, playbook.Add, playbook.Update, playbook.Tag, playbook.Remove, playbook.SetStatus, playbook.Pin, playbook.Merge,
		playbook.Retag, playbook.AddExposures, playbook.Confirm,
	}
	op := playbook.Op{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Bullet: drawID(t, p), Support: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}}
	switch op.Kind {
	case playbook.Add:
		if rapid.Bool().Draw(t, "new") {
			*minted++
			op.Bullet = playbook.MintID("others", *minted)
		}
		op.Section, op.Content = drawSection.Draw(t, "section"), drawContent.Draw(t, "content")
		op.Status, op.Standing = drawStatus.Draw(t, "status"), drawStanding.Draw(t, "standing")
		op.Replaces, op.Contests = drawAgainst(t, p, "replaces"), drawAgainst(t, p, "contests")
	case playbook.Update:
		op.Content, op.Standing = drawContent.Draw(t, "content"), drawStanding.Draw(t, "standing")
		op.Section = rapid.OneOf(rapid.Just(""), drawSection).Draw(t, "section")
	case playbook.Tag:
		op.Helpful, op.Harmful, op.Neutral = drawVotes.Draw(t, "helpful"), drawVotes.Draw(t, "harmful"), 1
	case playbook.Retag:
		op.OldVote = rapid.SampledFrom([]playbook.Vote{playbook.Helpful, playbook.Harmful, playbook.Neutral}).Draw(t, "was")
		op.Support = op.Support[:rapid.IntRange(1, 9).Draw(t, "votes")]
		if rapid.Bool().Draw(t, "moves") {
			op.Harmful = rapid.IntRange(0, len(op.Support)).Draw(t, "to harmful")
			op.Neutral = len(op.Support) - op.Harmful
		}
	case playbook.AddExposures:
		if b := p.Bullet(op.Bullet); b != nil {
			op.ExperimentNumber = b.CurrentExperiment().Number
		}
		if rapid.IntRange(0, 3).Draw(t, "of another case") == 0 {
			op.ExperimentNumber++
		}
		op.Support = op.Support[:rapid.IntRange(1, 9).Draw(t, "outcomes")]
		for range op.Support {
			op.Exposures = append(op.Exposures, drawExposure(t))
		}
	case playbook.SetStatus:
		op.Status, op.Standing = drawStatus.Draw(t, "status"), drawStanding.Draw(t, "standing")
		op.Restart = rapid.Bool().Draw(t, "restart")
	case playbook.Pin:
		op.Pinned = rapid.Bool().Draw(t, "pinned")
	case playbook.Merge:
		op.Content, op.Standing = drawContent.Draw(t, "content"), drawStanding.Draw(t, "standing")
		for range rapid.IntRange(0, 3).Draw(t, "sources") {
			op.Sources = append(op.Sources, drawID(t, p))
		}
	}
	return op
}

// covers have one of three sources, or none.
var covers = func() []playbook.Cover {
	all := make([]playbook.Cover, 9)
	for i, source := range []string{"a", "b", "", "a", "a", "c", "b", "a"} {
		all[i].Evidence = &playbook.Evidence{Execution: fmt.Sprint(i), Source: source}
	}
	return all
}()

func drawDelta(t *rapid.T, p *playbook.Playbook) *playbook.Delta {
	d := &playbook.Delta{Version: p.Version() + 1, Covers: covers, Time: time.Unix(int64(p.Version()), 0)}
	if d.Version > 1 {
		d.PrevChain = []byte("chain")
	}
	minted := p.LastMinted()
	for range rapid.IntRange(0, 6).Draw(t, "ops") {
		d.Ops = append(d.Ops, drawOp(t, p, &minted))
	}
	if err := d.Validate(); err != nil {
		t.Fatalf("drew an invalid delta: %v", err)
	}
	return d
}

func apply(t rapid.TB, p *playbook.Playbook, d *playbook.Delta) []playbook.BulletID {
	t.Helper()
	changed, err := p.Apply(d)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// drawPlaybook draws a log and folds it.
func drawPlaybook(t *rapid.T) *playbook.Playbook {
	p := new(playbook.Playbook)
	for range rapid.IntRange(0, 8).Draw(t, "deltas") {
		if rapid.Bool().Draw(t, "asked") {
			p.FindByContent("") // from here on the index of texts is kept
		}
		apply(t, p, drawDelta(t, p))
	}
	return p
}

// contents returns copies of the bullets by id.
func contents(p *playbook.Playbook) map[playbook.BulletID]playbook.Bullet {
	all := make(map[playbook.BulletID]playbook.Bullet)
	for b := range p.All() {
		all[b.ID] = *b
	}
	return all
}

func counters(b playbook.Bullet) [3]int { return [3]int{b.Helpful, b.Harmful, b.Neutral} }

// checkIndexes compares the checksum and the indexes of a playbook with those of a playbook built from its bullets.
func checkIndexes(t *rapid.T, p *playbook.Playbook) {
	t.Helper()
	rebuilt := playbook.Restore(p.Version(), p.LastMinted(), p.All())
	if p.Checksum() != rebuilt.Checksum() || p.StateHash() != rebuilt.StateHash() || p.Len() != rebuilt.Len() {
		t.Fatalf("checksum %x over %d bullets, from scratch %x over %d", p.Checksum(), p.Len(), rebuilt.Checksum(), rebuilt.Len())
	}
	if want := recount(p); p.Tally() != want {
		t.Fatalf("tally: got %+v, the bullets have %+v", p.Tally(), want)
	}
	same := map[playbook.ContentKey]*playbook.Bullet{}
	for _, b := range p.Sorted() {
		if w := playbook.ContentKeyOf(b.Content); same[w] == nil {
			same[w] = b
		}
	}
	for _, text := range []string{"call a before b", "is ten", "twelve", "thirteen"} {
		if got, want := p.FindByContent(text), same[playbook.ContentKeyOf(text)]; got != want {
			t.Fatalf("Same(%q): got %v, want %v", text, got, want)
		}
	}
}

// recount computes the tally from the bullets alone.
func recount(p *playbook.Playbook) (want playbook.Tally) {
	for b := range p.All() {
		e := b.CurrentExperiment()
		isShown := b.Status == "" || b.Status == playbook.Active
		if !isShown {
			continue
		}
		count, sum := 0, 0
		for score, n := range e.Cited {
			count += n
			sum += n * score
		}
		want.Cited += count
		want.Sum += sum
		few := min(count, 4)
		want.Few += few
		want.FewSum += few * int(math.Round(1000*float64(sum)/10/float64(max(count, 1))))
	}
	return want
}

func cmpID(a, b playbook.BulletID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestApplyKeepsInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := new(playbook.Playbook)
		ever := map[playbook.BulletID]bool{}
		for range rapid.IntRange(1, 10).Draw(t, "deltas") {
			before, last := contents(p), p.LastMinted()
			d := drawDelta(t, p)
			changed := apply(t, p, d)
			checkIndexes(t, p)
			if p.Version() != d.Version {
				t.Fatalf("version: got %d, want %d", p.Version(), d.Version)
			}
			if p.LastMinted() < last {
				t.Fatalf("highest number minted fell from %d to %d", last, p.LastMinted())
			}
			after := contents(p)
			for id := range after {
				ever[id] = true
			}
			if next := playbook.MintID("others", p.LastMinted()+1); ever[next] {
				t.Fatalf("the next id, %s, was used before", next)
			}
			for id := range maps.Keys(mapsUnion(before, after)) {
				if !slices.Contains(changed, id) && !cmp.Equal(before[id], after[id]) {
					t.Fatalf("bullet %s changed, but is not in %v", id, changed)
				}
			}
			hash := p.StateHash()
			for range 4 {
				if again := apply(t, p, d); len(again) > 0 || p.StateHash() != hash || !cmp.Equal(contents(p), after) {
					t.Fatal("the same delta once more changed something")
				}
			}
		}
	})
}

func mapsUnion[K comparable, V any](a, b map[K]V) map[K]V {
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}

func TestApplyRejectsAVersionThatDoesNotFollow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaybook(t)
		d := drawDelta(t, p)
		d.Version += rapid.Uint64Range(1, 5).Draw(t, "gap")
		before := contents(p)
		if _, err := p.Apply(d); err == nil || !cmp.Equal(before, contents(p)) {
			t.Fatalf("got error %v and a change, want an error and no change", err)
		}
	})
}

// TestIndependentDeltasCommute: the deltas have minted ids and different bullets.
func TestIndependentDeltasCommute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaybook(t)
		minted := p.LastMinted()
		ids := slices.Sorted(maps.Keys(contents(p)))
		var deltas []*playbook.Delta
		for range rapid.IntRange(2, 5).Draw(t, "deltas") {
			own := new(playbook.Playbook) // the bullets of this delta alone
			n := rapid.IntRange(0, len(ids)).Draw(t, "bullets")
			d := &playbook.Delta{Covers: covers}
			for range rapid.IntRange(1, 5).Draw(t, "ops") {
				op := drawOp(t, own, &minted)
				if op.Kind != playbook.Add && n == 0 || op.Kind == playbook.Add && op.Bullet == "misc-00001" {
					continue
				}
				if op.Kind != playbook.Add {
					op.Bullet = rapid.SampledFrom(ids[:n]).Draw(t, "bullet")
				}
				for i := range op.Sources {
					op.Sources[i] = rapid.SampledFrom(ids[:n]).Draw(t, "source")
				}
				d.Ops = append(d.Ops, op)
			}
			ids = ids[n:]
			deltas = append(deltas, d)
		}
		other := p.Clone()
		for _, d := range deltas {
			d.Version = p.Version() + 1
			apply(t, p, d)
		}
		for _, d := range rapid.Permutation(deltas).Draw(t, "order") {
			d.Version = other.Version() + 1
			apply(t, other, d)
		}
		if p.StateHash() != other.StateHash() || p.Checksum() != other.Checksum() || p.LastMinted() != other.LastMinted() {
			t.Fatal("another order gave another state")
		}
	})
}

// TestOperationsKeepCounters: UPDATE keeps the counters, TAG adds its votes, ADD overwrites nothing, MERGE keeps the sum.
func TestOperationsKeepCounters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaybook(t)
		minted := p.LastMinted()
		op := drawOp(t, p, &minted)
		before := contents(p)
		old, there := before[op.Bullet]
		d := &playbook.Delta{Version: p.Version() + 1, Covers: covers, Ops: []playbook.Op{op}}
		apply(t, p, d)
		now := contents(p)[op.Bullet]
		want := counters(old)
		switch {
		case op.Kind == playbook.Add && there:
			if !cmp.Equal(old, now) {
				t.Fatalf("ADD overwrote %v with %v", old, now)
			}
		case !there && op.Kind != playbook.Add && !cmp.Equal(before, contents(p)):
			t.Fatalf("%s of a missing bullet changed something", op.Kind)
		case !there || op.Kind == playbook.Remove:
			want = [3]int{}
		case op.Kind == playbook.Tag:
			want = [3]int{old.Helpful + op.Helpful, old.Harmful + op.Harmful, old.Neutral + op.Neutral}
		case op.Kind == playbook.Retag:
			want = counters(old)
			was := slices.Index([]playbook.Vote{playbook.Helpful, playbook.Harmful, playbook.Neutral}, op.OldVote)
			want[was] = max(0, want[was]-len(op.Support))
			want = [3]int{want[0] + op.Helpful, want[1] + op.Harmful, want[2] + op.Neutral}
		case op.Kind == playbook.Merge:
			slices.Sort(op.Sources)
			for _, id := range slices.Compact(op.Sources) {
				if id != op.Bullet {
					c := counters(before[id])
					want = [3]int{want[0] + c[0], want[1] + c[1], want[2] + c[2]}
				}
			}
		}
		if got := counters(now); got != want {
			t.Fatalf("%s: counters %v, want %v", op.Kind, got, want)
		}
	})
}

func TestCloneIsIndependent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaybook(t)
		c, before := p.Clone(), contents(p)
		apply(t, c, drawDelta(t, c))
		checkIndexes(t, c)
		if !cmp.Equal(before, contents(p)) {
			t.Fatal("a change of the clone changed the original")
		}
		checkIndexes(t, p)
		after := contents(c)
		apply(t, p, drawDelta(t, p))
		if !cmp.Equal(after, contents(c)) {
			t.Fatal("a change of the original changed the clone")
		}
		checkIndexes(t, c)
		checkIndexes(t, p)
	})
}

func TestMirrorFollowsOrChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaybook(t)
		mirror := p.Clone()
		changed := map[playbook.BulletID]*playbook.Bullet{}
		for range rapid.IntRange(1, 3).Draw(t, "news") {
			for _, id := range apply(t, p, drawDelta(t, p)) {
				changed[id] = p.Bullet(id)
			}
		}
		before, hash, last := contents(mirror), mirror.StateHash(), mirror.LastMinted()
		torn := maps.Clone(changed)
		for id := range torn { // something that was to arrive did not
			delete(torn, id)
			if cmp.Equal(mirror.Bullet(id), p.Bullet(id)) || hash == p.StateHash() {
				break
			}
			if partial := mirror.ApplyChanges(p.Version(), p.LastMinted(), torn, p.Len(), p.Checksum()); partial && mirror.StateHash() != p.StateHash() {
				t.Fatal("accepted a partial view")
			} else if partial {
				return // the missing change is in a field without checksum, such as a time or a rule
			}
			break
		}
		sum := p.Checksum()
		sum[3] ^= 1
		if mirror.ApplyChanges(p.Version(), p.LastMinted(), changed, p.Len(), sum) ||
			mirror.ApplyChanges(p.Version(), p.LastMinted(), changed, p.Len()+1, p.Checksum()) {
			t.Fatal("took what does not fit")
		}
		if !cmp.Equal(before, contents(mirror)) || mirror.StateHash() != hash || mirror.LastMinted() != last {
			t.Fatal("a refused Mirror changed something")
		}
		checkIndexes(t, mirror)
		if !mirror.ApplyChanges(p.Version(), p.LastMinted(), changed, p.Len(), p.Checksum()) {
			t.Fatal("refused what fits")
		}
		checkIndexes(t, mirror)
		if mirror.Version() != p.Version() || mirror.StateHash() != p.StateHash() || mirror.LastMinted() != p.LastMinted() || !cmp.Equal(contents(p), contents(mirror)) {
			t.Fatal("the mirror is not what it mirrors")
		}
	})
}

func TestIDsOfRemovedBulletsAreNotReused(t *testing.T) {
	t.Parallel()
	p := new(playbook.Playbook)
	for i, id := range []playbook.BulletID{"misc-00001", "calc-00002", "x-4294967295", "no-number", "007"} {
		ops := []playbook.Op{{Kind: playbook.Add, Bullet: id, Content: fmt.Sprint(i)}}
		apply(t, p, &playbook.Delta{Version: p.Version() + 1, Ops: ops})
		apply(t, p, &playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: id}}})
	}
	next := playbook.MintID("others", p.LastMinted()+1)
	if p.Len() != 0 || next != "misc-4294967296" {
		t.Fatalf("got %d bullets and next id %s, want no bullets and the number after the highest", p.Len(), next)
	}
	apply(t, p, &playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{{Kind: playbook.Add, Bullet: next, Content: "one more"}}})
	if again := playbook.MintID("others", p.LastMinted()+1); again == next {
		t.Errorf("minted %s twice", again)
	}
}

package deltalog_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// bookRun is one book of a property run, with two writers on it.
type bookRun struct {
	*rapid.T
	out     *testing.T
	s       *deltalog.Store
	tap     *hookedJetStream // of all writers
	kv      jetstream.KeyValue
	book    playbook.Book
	writers [2]*deltalog.Writer

	next    uint64            // sequence of the next reflection
	waiting map[uint64]string // reflections that no delta covers yet
	covered map[uint64]string
}

// TestFoldFromTheViewEqualsFoldOfTheLog: two writers commit single deltas and changes in parts, complete or not, flush at
// random times, and keys of the view are deleted. A writer opened from the view has the same state and covered ids as a
// fold of the whole log. So has a follower in the end.
func TestFoldFromTheViewEqualsFoldOfTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	kv, err := js.KeyValue(t.Context(), events.BucketPlaybook)
	check(t, err)
	var books atomic.Int32
	rapid.Check(t, func(rt *rapid.T) {
		tap := &hookedJetStream{JetStream: js}
		w := &bookRun{
			T: rt, out: t, s: deltalog.New(tap), tap: tap, kv: kv, book: playbook.Book(fmt.Sprint("b", books.Add(1))),
			next: 1, waiting: map[uint64]string{}, covered: map[uint64]string{},
		}
		if rapid.Bool().Draw(rt, "small heads") {
			w.s.SmallHeads(600)
		}
		for i := range w.writers {
			w.writers[i] = w.open()
		}
		follower, wait, err := w.s.Follow(t.Context(), w.book)
		w.ok(err)
		defer wait()
		for range rapid.IntRange(5, 16).Draw(rt, "steps") {
			w.step()
		}
		w.checkState(w.open())
		for _, x := range w.writers {
			w.ok(x.CheckView(t.Context()))
			w.checkState(x)
			w.ok(x.Flush(t.Context()))
			want := x.State().Playbook()
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			w.ok(follower.Wait(ctx, want.Version()))
			stop()
			follower.Read(func(p *playbook.Playbook, chain []byte) {
				if p.StateHash() != want.StateHash() || !bytes.Equal(chain, x.State().Chain()) {
					w.Errorf("the follower has %d bullets at version %d, want %d at version %d", p.Len(), p.Version(), want.Len(), want.Version())
				}
			})
		}
		v, err := w.s.Verify(t.Context(), w.book)
		w.ok(err)
		for _, f := range v.Findings {
			if f.Severity != deltalog.Note && f.Severity != deltalog.Missing { // its stream of reflections is empty
				rt.Errorf("in the end: %v", f)
			}
		}
	})
}

func (w *bookRun) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *bookRun) open() *deltalog.Writer {
	x, err := w.s.Writer(w.out.Context(), w.book)
	w.ok(err)
	w.ok(x.OpenIndex(w.out.Context()))
	return x
}

// step performs one random action of one of the writers.
func (w *bookRun) step() {
	i := rapid.IntRange(0, 1).Draw(w.T, "writer")
	x := w.writers[i]
	switch rapid.SampledFrom([]string{"delta", "delta", "delta", "change", "die", "flush", "open", "rebuild", "damage"}).Draw(w.T, "what") {
	case "delta":
		w.commit(x, 1, false)
	case "change":
		deltas := rapid.IntRange(2, 4).Draw(w.T, "deltas")
		w.between(w.writers[1-i], rapid.IntRange(1, deltas).Draw(w.T, "before"), rapid.Bool().Draw(w.T, "cut"))
		w.commit(x, deltas, false)
		w.checkState(w.open())
	case "die":
		w.commit(x, rapid.IntRange(1, 3).Draw(w.T, "parts")+1, true)
	case "flush":
		w.ok(x.Flush(w.out.Context()))
	case "rebuild":
		w.ok(x.Rebuild(w.out.Context()))
		w.checkState(x)
	case "damage":
		w.damage()
		w.writers[i] = w.open()
		w.ok(w.writers[i].Flush(w.out.Context()))
	case "open":
		w.checkState(w.open())
		w.writers[i] = w.open()
	}
}

// between makes another writer flush the view, or commit a delta, before the n-th delta from here.
func (w *bookRun) between(other *deltalog.Writer, n int, cut bool) {
	w.tap.before = func(*nats.Msg) {
		if n--; n > 0 {
			return
		}
		w.tap.before = nil
		if cut {
			_, err := other.Commit(w.out.Context(), single(&playbook.Delta{Reason: "cut"}))
			w.ok(err)
			return
		}
		w.ok(other.CheckView(w.out.Context()))
		w.ok(other.Flush(w.out.Context()))
	}
}

// damage deletes a key of the view, which may not exist.
func (w *bookRun) damage() {
	key := events.HeadKey(w.book)
	if n := rapid.Uint64Range(0, 10).Draw(w.T, "key"); n > 0 {
		key = events.BulletKey(w.book, playbook.MintID("others", n))
	}
	w.ok(w.kv.Delete(w.out.Context(), key))
}

// commit commits a change for one of the waiting reflections. If dies is set, the change stays incomplete.
func (w *bookRun) commit(x *deltalog.Writer, deltas int, dies bool) {
	for range rapid.IntRange(0, 2).Draw(w.T, "new reflections") + max(0, 1-len(w.waiting)) {
		w.waiting[w.next] = fmt.Sprint("r", w.next)
		w.next++
	}
	waiting := slices.Sorted(maps.Keys(w.waiting))
	seq, floor := waiting[0], waiting[0]-1 // mostly in order, so that the floor moves
	if rapid.IntRange(0, 3).Draw(w.T, "out of order") == 0 {
		seq = rapid.SampledFrom(waiting).Draw(w.T, "reflection")
	}
	var drawn [][]playbook.Op
	for range deltas - 1 {
		drawn = append(drawn, rapid.SliceOfN(rapid.Custom(drawOp), 1, 4).Draw(w.T, "operations"))
	}
	drawn = append(drawn, rapid.SliceOfN(rapid.Custom(drawAnyOp), 1, 4).Draw(w.T, "last operations"))
	gate := rapid.SampledFrom([]playbook.Gate{"", "", playbook.GateStrict, playbook.GateOff}).Draw(w.T, "gate")
	_, err := x.Commit(w.out.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
		var all []*playbook.Delta
		number := s.Playbook().LastMinted()
		for _, ops := range drawn {
			d := &playbook.Delta{Floor: floor, Time: time.Unix(int64(seq), 5)}
			for _, op := range ops {
				number = max(number, op.Bullet.Number()) // of a Put; the next Add must get another number
				if op.Kind == playbook.Add {
					number++
					op.Bullet = playbook.MintID("others", number)
				}
				d.Ops = append(d.Ops, op)
			}
			all = append(all, d)
		}
		all[deltas-1].Covers = []playbook.Cover{*coverOf(seq, w.waiting[seq])}
		all[deltas-1].Gate = gate
		if dies {
			all[deltas-1].Reason = strings.Repeat("x", playbook.MaxDeltaBytes)
		}
		return all, nil
	})
	if dies {
		if err == nil {
			w.Fatal("a delta that is too large: got no error")
		}
		return
	}
	w.ok(err)
	w.covered[seq] = w.waiting[seq]
	delete(w.waiting, seq)
}

// drawAnyOp draws an operation that may be supported by the reflection.
func drawAnyOp(t *rapid.T) playbook.Op {
	kind := rapid.SampledFrom([]playbook.OpKind{"", "", playbook.Tag, playbook.Retag, playbook.AddExposures, playbook.Confirm, playbook.SetStatus}).Draw(t, "rests")
	op := playbook.Op{Kind: kind, Bullet: playbook.MintID("others", rapid.Uint64Range(1, 10).Draw(t, "bullet")), Support: []int{0}}
	switch kind {
	case "":
		op = drawOp(t)
		if op.Kind == playbook.Add {
			op.Support = []int{0}
		}
	case playbook.Tag:
		op.Helpful = 1
	case playbook.Retag:
		op.OldVote, op.Harmful = playbook.Helpful, rapid.IntRange(0, 1).Draw(t, "harmful")
	case playbook.AddExposures:
		op.ExperimentNumber = rapid.IntRange(0, 2).Draw(t, "case")
		op.Exposures = []playbook.Exposure{{
			Arm: playbook.ArmShown, Score: rapid.IntRange(0, playbook.MaxScore).Draw(t, "score"),
			Undo: rapid.IntRange(0, 3).Draw(t, "undo") == 0, Cited: rapid.Bool().Draw(t, "cited"),
		}}
	case playbook.SetStatus:
		op.Status, op.Standing, op.Restart = playbook.Probation, playbook.StandingNew, true
	}
	return op
}

// drawOp draws an operation on one of the first ten bullets, which may not exist.
func drawOp(t *rapid.T) playbook.Op {
	op := playbook.Op{
		Kind:   rapid.SampledFrom([]playbook.OpKind{playbook.Add, playbook.Add, playbook.Update, playbook.Remove, playbook.Pin, playbook.Put}).Draw(t, "kind"),
		Bullet: playbook.MintID("others", rapid.Uint64Range(1, 10).Draw(t, "bullet")),
	}
	text := rapid.StringMatching(`[a-c]{1,3}`).Draw(t, "text")
	switch op.Kind {
	case playbook.Add:
		op.Section, op.Content = "others", text
		op.Standing = rapid.SampledFrom([]playbook.Standing{"", playbook.StandingNew, playbook.StandingKept}).Draw(t, "standing")
		op.Contests = rapid.SampledFrom([]playbook.BulletID{"", "misc-00001"}).Draw(t, "contests")
	case playbook.Update:
		op.Content = text
	case playbook.Pin:
		op.Pinned = true
	case playbook.Put:
		op.PutBullet = &playbook.Bullet{ID: op.Bullet, Section: "others", Content: text, Helpful: 3, CreatedAt: time.Unix(7, 0)}
	}
	return op
}

// checkState compares a writer with a fold of the log up to its version.
func (w *bookRun) checkState(x *deltalog.Writer) {
	w.Helper()
	is := x.State()
	want, err := w.s.PlaybookAt(w.out.Context(), w.book, is.Playbook().Version())
	w.ok(err)
	if is.Playbook().StateHash() != want.StateHash() || is.Playbook().Checksum() != want.Checksum() || is.Playbook().InChange() != want.InChange() {
		w.Fatalf("version %d: got %d bullets, want %d as the log says", want.Version(), is.Playbook().Len(), want.Len())
	}
	mode, set := is.Playbook().Gate()
	if wantMode, wantSet := want.Gate(); mode != wantMode || set != wantSet {
		w.Errorf("gate: got %q, %v, want %q, %v", mode, set, wantMode, wantSet)
	}
	for b := range want.All() {
		a, errA := events.Marshal(is.Playbook().Bullet(b.ID))
		z, errZ := events.Marshal(b)
		if errA != nil || errZ != nil || !bytes.Equal(a, z) {
			w.Errorf("bullet %s: got %+v, want %+v", b.ID, is.Playbook().Bullet(b.ID), b)
		}
	}
	last := new(deltalog.Record)
	w.ok(w.s.ReadLog(w.out.Context(), w.book, func(r *deltalog.Record) error {
		if r.Version <= want.Version() {
			last = r
		}
		return nil
	}))
	if !bytes.Equal(is.Chain(), last.Chain) {
		w.Errorf("chain hash %x, want %x", is.Chain(), last.Chain)
	}
	if want.LastMinted() != is.Playbook().LastMinted() {
		w.Errorf("last minted %d, want %d", is.Playbook().LastMinted(), want.LastMinted())
	}
	w.checkCovers(x)
}

func coverOf(seq uint64, id string) *playbook.Cover {
	return &playbook.Cover{ID: id, Seq: seq, Evidence: &playbook.Evidence{
		Execution: fmt.Sprintf("%d-abcdef01", seq), Sample: id, Source: fmt.Sprint("s", seq%3),
	}}
}

func (w *bookRun) isCovered(x *deltalog.Writer, seq uint64, id string) bool {
	ok, err := x.State().Covers(coverOf(seq, id).Key())
	w.ok(err)
	return ok
}

// checkCovers compares the covered ids of a writer, after it has read the log to its end.
func (w *bookRun) checkCovers(x *deltalog.Writer) {
	w.Helper()
	w.ok(x.CheckView(w.out.Context()))
	for seq, id := range w.covered {
		if !w.isCovered(x, seq, id) {
			w.Errorf("reflection %d: got not covered, want covered", seq)
		}
	}
	for seq, id := range w.waiting {
		if w.isCovered(x, seq, id) {
			w.Errorf("reflection %d: got covered, want not covered", seq)
		}
	}
}

package natskv_test

import (
	"bytes"
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
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// ward is one book of a property run, with two writers on it.
type ward struct {
	*rapid.T
	out     *testing.T
	s       *natskv.Store
	tap     *tapped // of all writers
	kv      jetstream.KeyValue
	book    playbook.Book
	writers [2]*natskv.Writer

	next    uint64            // sequence that the next reflection is delivered under
	waiting map[uint64]string // reflections that no delta covers yet
	covered map[uint64]string
}

// TestARebuildFromTheFirstDeltaAndOneFromTheViewPlusTailGiveTheSameHash: whatever two writers did to a book, in single
// deltas and in parts, finished or not, whatever was flushed when, and whatever befell the view, a writer that opens it
// from the view has what a fold of the whole log has, and knows of the same reflections.
func TestARebuildFromTheFirstDeltaAndOneFromTheViewPlusTailGiveTheSameHash(t *testing.T) {
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
		tap := &tapped{JetStream: js}
		w := &ward{
			T: rt, out: t, s: natskv.New(tap), tap: tap, kv: kv, book: playbook.Book(fmt.Sprint("b", books.Add(1))),
			next: 1, waiting: map[uint64]string{}, covered: map[uint64]string{},
		}
		for i := range w.writers {
			w.writers[i] = w.open()
		}
		for range rapid.IntRange(5, 16).Draw(rt, "steps") {
			w.step()
		}
		w.same(w.open())
		for _, x := range w.writers {
			w.ok(x.CheckView(t.Context()))
			w.same(x)
			w.ok(x.Flush(t.Context()))
		}
		v, err := w.s.Verify(t.Context(), w.book)
		w.ok(err)
		for _, f := range v.Findings {
			if f.Severity != natskv.Note && f.Severity != natskv.Missing { // its stream of reflections is empty
				rt.Errorf("in the end: %v", f)
			}
		}
	})
}

func (w *ward) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *ward) open() *natskv.Writer {
	x, err := w.s.Writer(w.out.Context(), w.book)
	w.ok(err)
	w.ok(x.OpenIndex(w.out.Context()))
	return x
}

// step does one thing by one of the writers.
func (w *ward) step() {
	i := rapid.IntRange(0, 1).Draw(w.T, "writer")
	x := w.writers[i]
	switch rapid.SampledFrom([]string{"delta", "delta", "delta", "change", "die", "flush", "open", "rebuild", "damage"}).Draw(w.T, "what") {
	case "delta":
		w.commit(x, 1, false)
	case "change":
		deltas := rapid.IntRange(2, 4).Draw(w.T, "deltas")
		w.between(w.writers[1-i], rapid.IntRange(1, deltas).Draw(w.T, "before"), rapid.Bool().Draw(w.T, "cut"))
		w.commit(x, deltas, false)
		w.same(w.open())
	case "die":
		w.commit(x, rapid.IntRange(1, 3).Draw(w.T, "parts")+1, true)
	case "flush":
		w.ok(x.Flush(w.out.Context()))
	case "rebuild":
		w.ok(x.Rebuild(w.out.Context()))
		w.same(x)
	case "damage":
		w.damage()
		w.writers[i] = w.open()
		w.ok(w.writers[i].Flush(w.out.Context()))
	case "open":
		w.same(w.open())
		w.writers[i] = w.open()
	}
}

// between has another writer bring the view up to the log, or cut the change in two, before the n-th delta from here.
func (w *ward) between(other *natskv.Writer, n int, cut bool) {
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

// damage removes a key of the view, which need not be there.
func (w *ward) damage() {
	key := events.HeadKey(w.book)
	if n := rapid.Uint64Range(0, 10).Draw(w.T, "key"); n > 0 {
		key = events.BulletKey(w.book, playbook.MintID("others", n))
	}
	w.ok(w.kv.Delete(w.out.Context(), key))
}

// commit commits a change of so many deltas for one of the reflections that wait; one that dies does not come to its end.
func (w *ward) commit(x *natskv.Writer, deltas int, dies bool) {
	for range rapid.IntRange(0, 2).Draw(w.T, "come in") + max(0, 1-len(w.waiting)) {
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
	gate := rapid.SampledFrom([]playbook.Gate{"", "", playbook.GateOn, playbook.GateOff}).Draw(w.T, "gate")
	_, err := x.Commit(w.out.Context(), func(s natskv.State) ([]*playbook.Delta, error) {
		var all []*playbook.Delta
		number := s.Playbook().LastMinted()
		for _, ops := range drawn {
			d := &playbook.Delta{Floor: floor, Time: time.Unix(int64(seq), 5)}
			for _, op := range ops {
				number = max(number, op.Bullet.Number()) // of a Put, which the next Add must not meet
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

// drawAnyOp is one that may rest on the reflection, too.
func drawAnyOp(t *rapid.T) playbook.Op {
	kind := rapid.SampledFrom([]playbook.OpKind{"", "", playbook.Tag, playbook.Retag, playbook.Trial, playbook.Second, playbook.SetStatus}).Draw(t, "rests")
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
		op.Was, op.Harmful = playbook.Helpful, rapid.IntRange(0, 1).Draw(t, "harmful")
	case playbook.Trial:
		op.Case = rapid.IntRange(0, 2).Draw(t, "case")
		op.Seen = []playbook.Seen{{Arm: playbook.ArmShown, Score: rapid.IntRange(0, playbook.MaxScore).Draw(t, "score"), Undo: rapid.IntRange(0, 3).Draw(t, "undo") == 0}}
	case playbook.SetStatus:
		op.Status, op.Share = playbook.Probation, 50
	}
	return op
}

// drawOp is an operation on one of the first ten bullets, which may not be there.
func drawOp(t *rapid.T) playbook.Op {
	op := playbook.Op{
		Kind:   rapid.SampledFrom([]playbook.OpKind{playbook.Add, playbook.Add, playbook.Update, playbook.Remove, playbook.Pin, playbook.Put}).Draw(t, "kind"),
		Bullet: playbook.MintID("others", rapid.Uint64Range(1, 10).Draw(t, "bullet")),
	}
	text := rapid.StringMatching(`[a-c]{1,3}`).Draw(t, "text")
	switch op.Kind {
	case playbook.Add:
		op.Section, op.Content = "others", text
		if rapid.Bool().Draw(t, "rule") {
			op.Rule = &playbook.Rule{Key: text, Text: text}
		}
	case playbook.Update:
		op.Content = text
	case playbook.Pin:
		op.Pinned = true
	case playbook.Put:
		op.Whole = &playbook.Bullet{ID: op.Bullet, Section: "others", Content: text, Helpful: 3, CreatedAt: time.Unix(7, 0)}
	}
	return op
}

// same fails unless a writer has what a fold of the whole log has up to its version.
func (w *ward) same(x *natskv.Writer) {
	w.Helper()
	is := x.State()
	want, err := w.s.At(w.out.Context(), w.book, is.Playbook().Version())
	w.ok(err)
	if is.Playbook().StateHash() != want.StateHash() || is.Playbook().Checksum() != want.Checksum() || is.Playbook().Open() != want.Open() {
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
	last := new(natskv.Record)
	w.ok(w.s.Log(w.out.Context(), w.book, func(r *natskv.Record) error {
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
	w.covers(x)
}

func coverOf(seq uint64, id string) *playbook.Cover {
	return &playbook.Cover{ID: id, Seq: seq, Evidence: &playbook.Evidence{
		Execution: fmt.Sprintf("%d-abcdef01", seq), Sample: id, Source: fmt.Sprint("s", seq%3),
	}}
}

func (w *ward) isCovered(x *natskv.Writer, seq uint64, id string) bool {
	ok, err := x.State().Covers(coverOf(seq, id).Key())
	w.ok(err)
	return ok
}

// covers fails unless a writer knows what is covered. It is brought up to the log's end for that.
func (w *ward) covers(x *natskv.Writer) {
	w.Helper()
	w.ok(x.CheckView(w.out.Context()))
	for seq, id := range w.covered {
		if !w.isCovered(x, seq, id) {
			w.Errorf("reflection %d is covered, got that it is not", seq)
		}
	}
	for seq, id := range w.waiting {
		if w.isCovered(x, seq, id) {
			w.Errorf("reflection %d waits, got that it is covered", seq)
		}
	}
}

package deltalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// change builds a change of several deltas, each of which adds the given number of bullets.
func change(id string, seq uint64, deltas, bullets int) func(deltalog.State) ([]*playbook.Delta, error) {
	return func(s deltalog.State) ([]*playbook.Delta, error) {
		if covers(s, id) {
			return nil, nil
		}
		number := s.Playbook().LastMinted()
		all := make([]*playbook.Delta, deltas)
		for i := range all {
			all[i] = &playbook.Delta{Author: "ann", Time: time.Unix(int64(seq), 0).UTC()}
			for range bullets {
				number++
				all[i].Ops = append(all[i].Ops, playbook.Op{
					Kind: playbook.Add, Bullet: playbook.MintID("others", number), Section: "others", Content: fmt.Sprint(id, " ", number),
				})
			}
		}
		all[deltas-1].Covers = []playbook.Cover{{ID: id, Seq: seq}}
		return all, nil
	}
}

// interrupted stores the first parts of a change and then fails, because the next part is invalid. In the log this looks
// like a writer that died.
func interrupted(t testing.TB, w *deltalog.Writer, parts int) {
	t.Helper()
	build := change("interrupted", 1<<30, parts+1, 2)
	_, err := w.Commit(t.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
		all, err := build(s)
		all[parts].Ops[0].Content = strings.Repeat("x", playbook.MaxContent+1)
		return all, err
	})
	if err == nil {
		t.Fatal("a bullet that is too long: got no error")
	}
}

// TestLargeImportBecomesVisibleAtOnce: while 10,000 bullets are committed and the view is written in 12 batches, existing
// followers, new followers and new writers see all of them or none.
func TestLargeImportBecomesVisibleAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	w := writer(t, s, "b")
	commit(t, w, add("r1", 1))
	check(t, w.Flush(t.Context()))
	const whole = 12*834 + 1
	see := func(who string, p *playbook.Playbook) {
		if p.Len() != 1 && p.Len() != whole {
			t.Errorf("%s sees %d bullets at version %d, want 1 or %d", who, p.Len(), p.Version(), whole)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var watchers sync.WaitGroup
	f, wait, err := s.Follow(ctx, "b")
	check(t, err)
	watchers.Go(func() {
		for v := uint64(1); f.Wait(ctx, v) == nil; v++ {
			f.Read(func(p *playbook.Playbook, _ []byte) { see("a follower", p); v = p.Version() })
		}
	})
	watchers.Go(func() {
		for ctx.Err() == nil {
			f, wait, err := s.Follow(ctx, "b")
			if err != nil {
				break
			}
			f.Read(func(p *playbook.Playbook, _ []byte) { see("a new follower", p) })
			wait()
		}
	})
	watchers.Go(func() {
		for ctx.Err() == nil {
			if w, err := s.Writer(ctx, "b"); err == nil {
				see("a new writer", w.State().Playbook())
			}
		}
	})
	commit(t, w, change("import", 2, 12, 834))
	check(t, w.Flush(t.Context()))
	check(t, f.Wait(t.Context(), w.State().Playbook().Version()))
	f.Read(func(p *playbook.Playbook, _ []byte) {
		if p.Len() != whole {
			t.Errorf("in the end: got %d bullets, want %d", p.Len(), whole)
		}
	})
	stop()
	wait()
	watchers.Wait()
}

func TestInterruptedChangeHasNoEffectAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for parts := range 4 {
		for _, flushed := range []bool{false, true} {
			book := playbook.Book(fmt.Sprintf("b-%d-%t", parts, flushed))
			w := writer(t, s, book)
			commit(t, w, add("r1", 1))
			before := w.State().Playbook().StateHash()
			interrupted(t, w, parts)
			if flushed { // in the middle of the change
				check(t, w.Flush(t.Context()))
			}
			again := writer(t, s, book)
			if p := again.State().Playbook(); p.StateHash() != before || p.Version() != uint64(1+parts) {
				t.Errorf("after %d parts: version %d with %d bullets, want version %d as it was before", parts, p.Version(), p.Len(), 1+parts)
			}
			at, err := s.PlaybookAt(t.Context(), book, uint64(1+parts))
			check(t, err)
			if at.StateHash() != before {
				t.Errorf("folded up to part %d: got %d bullets, want 1", parts, at.Len())
			}
			commit(t, again, change("import", 2, 4, 2))
			for who, p := range map[string]*playbook.Playbook{"the writer": again.State().Playbook(), "a new one": writer(t, s, book).State().Playbook()} {
				if p.Len() != 9 || p.Version() != uint64(1+parts+4) {
					t.Errorf("repeated after %d parts: %s has %d bullets at version %d, want 9 at %d", parts, who, p.Len(), p.Version(), 1+parts+4)
				}
			}
			v, err := s.Verify(t.Context(), book)
			check(t, err)
			if v.Abandoned != parts {
				t.Errorf("got %d abandoned parts, want %d", v.Abandoned, parts)
			}
		}
	}
}

// hookedJetStream calls a function before each publish, or replaces the reply.
type hookedJetStream struct {
	jetstream.JetStream
	before func(*nats.Msg)
	answer func(*jetstream.PubAck, error) (*jetstream.PubAck, error)
}

func (j *hookedJetStream) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if j.before != nil {
		j.before(m)
	}
	ack, err := j.JetStream.PublishMsg(ctx, m, opts...)
	if j.answer != nil {
		return j.answer(ack, err)
	}
	return ack, err
}

func TestChangeIsRepeatedAfterADeltaOfAnotherWriter(t *testing.T) {
	t.Parallel()
	for cut := range 4 {
		x := newSite(t, "r", 1)
		sent := 0
		tap := &hookedJetStream{JetStream: x.js, before: func(*nats.Msg) {
			if sent++; sent == cut+1 {
				commit(t, x.w, add("other", 9))
			}
		}}
		commit(t, writer(t, deltalog.New(tap), "b"), change("import", 2, 4, 2))
		p := writer(t, x.s, "b").State().Playbook()
		if p.Len() != 10 || p.Version() != uint64(1+cut+1+4) {
			t.Errorf("cut after %d parts: got %d bullets at version %d, want 10 at %d", cut, p.Len(), p.Version(), 1+cut+1+4)
		}
		if got := x.verify(); got.Abandoned != cut {
			t.Errorf("cut after %d parts: got %d abandoned", cut, got.Abandoned)
		}
	}
}

// TestCommitIsNotRepeatedAfterALostAck: the server stores a delta and its ack is lost.
func TestCommitIsNotRepeatedAfterALostAck(t *testing.T) {
	t.Parallel()
	for lost := range 4 {
		x := newSite(t, "r", 1)
		got := 0
		tap := &hookedJetStream{JetStream: x.js, answer: func(ack *jetstream.PubAck, err error) (*jetstream.PubAck, error) {
			if got++; got == lost+1 {
				return nil, nats.ErrTimeout
			}
			return ack, err
		}}
		w := writer(t, deltalog.New(tap), "b")
		stored, err := w.Commit(t.Context(), change("import", 2, 4, 2))
		if err != nil || len(stored) != 4 { // the caller counts what is stored, and replies to the author
			t.Errorf("ack of part %d lost: got %d deltas, %v, want the 4 stored ones", lost+1, len(stored), err)
		}
		commit(t, w, add("r9", 9))
		if n := x.verify().Abandoned; n > 0 {
			t.Errorf("ack of part %d lost: got %d abandoned parts, want none", lost+1, n)
		}
		if p := writer(t, x.s, "b").State().Playbook(); p.Len() != 10 || w.State().Playbook().StateHash() != p.StateHash() {
			t.Errorf("ack of part %d lost: got %d bullets, want 10", lost+1, p.Len())
		}
	}
}

// TestEmptyBuildIsRepeatedOnTheNewestState: a writer that does not read the log before it builds reads it before it
// accepts an empty change.
func TestEmptyBuildIsRepeatedOnTheNewestState(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	w, other := writer(t, s, "b"), writer(t, s, "b")
	commit(t, other, add("r1", 1))
	var seen []int
	commit(t, w, func(s deltalog.State) ([]*playbook.Delta, error) {
		seen = append(seen, s.Playbook().Len())
		return nil, nil
	})
	if len(seen) == 0 || seen[len(seen)-1] != 1 {
		t.Errorf("build saw %v bullets, want 1 in the end", seen)
	}
}

// TestCommitReadsFirstOnlyAfterAConflict: after the first conflict a writer reads before it commits and avoids further
// conflicts.
func TestCommitReadsFirstOnlyAfterAConflict(t *testing.T) {
	t.Parallel()
	x := newSite(t, "r", 1)
	conflicts := 0
	tap := &hookedJetStream{JetStream: x.js, answer: func(ack *jetstream.PubAck, err error) (*jetstream.PubAck, error) {
		if err != nil {
			conflicts++
		}
		return ack, err
	}}
	w := writer(t, deltalog.New(tap), "b")
	for i := range 20 {
		commit(t, x.w, add(fmt.Sprint("theirs", i), uint64(100+i)))
		commit(t, w, add(fmt.Sprint("ours", i), uint64(200+i)))
	}
	if conflicts != 1 {
		t.Errorf("got %d conflicts of writers that take turns, want only the first", conflicts)
	}
}

// TestOpenFromAViewInTheMiddleOfAChange: one writer flushes between the parts of another writer's change. A writer opened
// from that view has the whole change when it is complete.
func TestOpenFromAViewInTheMiddleOfAChange(t *testing.T) {
	t.Parallel()
	whole := newSite(t, "r", 2)
	commit(t, whole.w, func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{{Floor: 3}}, nil })
	commit(t, whole.w, change("import", 4, 5, 3))
	log := whole.log()
	for seen := 3; seen <= len(log); seen++ {
		x := newSite(t, "r", 0)
		for _, data := range log[:seen] {
			x.append(data, events.SchemaHeader())
		}
		check(t, x.w.CheckView(t.Context()))
		check(t, x.w.Flush(t.Context()))
		for _, data := range log[seen:] {
			x.append(data, events.SchemaHeader())
		}
		again := writer(t, x.s, "b")
		if got, want := again.ViewLag(), uint64(len(log)-seen); got != want {
			t.Errorf("view after %d records: %d behind, want %d: the writer did not start from the view", seen, got, want)
		}
		if again.State().Playbook().StateHash() != whole.w.State().Playbook().StateHash() {
			t.Errorf("view after %d records: got %d bullets, want %d", seen, again.State().Playbook().Len(), 17)
		}
	}
}

// TestInterruptedFlushIsCompleted: the view has batches of a large change, but not its complete head.
func TestInterruptedFlushIsCompleted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	old := writer(t, s, "b")
	commit(t, old, add("r1", 1))
	check(t, old.Flush(t.Context()))
	dying := writer(t, s, "b")
	commit(t, dying, change("import", 2, 3, 800))
	ctx, die := context.WithCancel(t.Context())
	watch, err := js.KeyValue(ctx, events.BucketPlaybook)
	check(t, err)
	heads, err := watch.Watch(ctx, "b.head", jetstream.UpdatesOnly())
	check(t, err)
	var killer sync.WaitGroup
	killer.Go(func() { <-heads.Updates(); die() })
	if err := dying.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	die()
	killer.Wait()

	// A writer that had the book open completes the view; a new follower sees a complete version.
	f := make(chan int)
	go func() {
		defer close(f)
		if f2, wait, err := s.Follow(t.Context(), "b"); err == nil {
			f2.Read(func(p *playbook.Playbook, _ []byte) { f <- p.Len() })
			wait()
		}
	}()
	check(t, old.CheckView(t.Context()))
	check(t, old.Flush(t.Context()))
	if n := <-f; n != 1 && n != 2401 {
		t.Errorf("a new follower sees %d bullets, want 1 or 2401", n)
	}
	v, err := s.Verify(t.Context(), "b")
	check(t, err)
	if len(v.Findings) > 0 || v.View != v.Version || v.Bullets != 2401 {
		t.Errorf("got %+v, want a complete view", v)
	}
}

// TestConcurrentRepairsOfALargeView: writers at different versions repair a lost view at the same time. Each needs
// several batches.
func TestConcurrentRepairsOfALargeView(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	first := writer(t, s, "b")
	commit(t, first, change("import", 1, 3, 800))
	writers := []*deltalog.Writer{writer(t, s, "b")}
	for i := range 2 {
		commit(t, first, add(fmt.Sprint("more", i), uint64(2+i)))
		writers = append(writers, writer(t, s, "b"))
	}
	var all sync.WaitGroup
	for _, w := range writers {
		all.Go(func() {
			if err := w.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, w := range writers { // the sweep
		check(t, w.CheckView(t.Context()))
		check(t, w.Flush(t.Context()))
	}
	v, err := s.Verify(t.Context(), "b")
	check(t, err)
	if len(v.Findings) > 0 || v.View != 5 {
		t.Errorf("got %+v, want a complete view at version 5", v)
	}
}

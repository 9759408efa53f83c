package deltalog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// open starts a server and returns a store on it.
func open(t testing.TB) (*deltalog.Store, *nats.Conn) {
	t.Helper()
	conn, nc := bustest.Open(t, bus.Policy{})
	return deltalog.New(conn.JetStream()), nc
}

func writer(t testing.TB, s *deltalog.Store, b playbook.Book) *deltalog.Writer {
	t.Helper()
	w, err := s.Writer(t.Context(), b)
	check(t, err)
	check(t, w.OpenIndex(t.Context()))
	return w
}

// covers reports whether a state covers an edit.
func covers(s deltalog.State, id string) bool {
	ok, err := s.Covers((&playbook.Cover{ID: id}).Key())
	if err != nil {
		panic(err)
	}
	return ok
}

// add builds the delta that adds one bullet for one reflection, or nothing if the log covers the reflection.
func add(id string, seq uint64) func(deltalog.State) ([]*playbook.Delta, error) {
	return func(s deltalog.State) ([]*playbook.Delta, error) {
		if covers(s, id) {
			return nil, nil
		}
		return []*playbook.Delta{{
			Covers: []playbook.Cover{{ID: id, Seq: seq}}, Time: time.Unix(int64(seq), 0).UTC(),
			Ops: []playbook.Op{{
				Kind: playbook.Add, Bullet: playbook.MintID("others", s.Playbook().LastMinted()+1), Section: "others",
				Content: "lesson " + id, Support: []int{0},
			}},
		}}, nil
	}
}

func commit(t testing.TB, w *deltalog.Writer, build func(deltalog.State) ([]*playbook.Delta, error)) {
	t.Helper()
	if _, err := w.Commit(t.Context(), build); err != nil {
		t.Fatal(err)
	}
}

// commitAndFlush commits a delta with operations, and brings the view to it.
func commitAndFlush(t testing.TB, w *deltalog.Writer, ops ...playbook.Op) {
	t.Helper()
	commit(t, w, func(deltalog.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Author: "tester", Time: time.Now().UTC(), Ops: ops}}, nil
	})
	check(t, w.Flush(t.Context()))
}

func TestCommitReachesTheLogTheViewAndFollowers(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	w := writer(t, s, "b")
	for i := range 10 {
		commit(t, w, add(fmt.Sprint("r", i), uint64(i+1)))
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, wait, err := s.Follow(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer wait()
	if got := f.Version(); got != 10 {
		t.Errorf("follower at version %d, want 10", got)
	}
	commit(t, w, func(s deltalog.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "misc-00003"}}}}, nil
	})
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Wait(t.Context(), 11); err != nil {
		t.Fatal(err)
	}
	want := w.State().Playbook().StateHash()
	f.Read(func(p *playbook.Playbook, _ []byte) {
		if p.StateHash() != want || p.Len() != 9 {
			t.Errorf("follower holds %d bullets under another hash than the writer's 9", p.Len())
		}
	})
	if at, err := s.PlaybookAt(t.Context(), "b", 11); err != nil || at.StateHash() != want {
		t.Errorf("fold of the log differs from the writer (%v)", err)
	}
	if again := writer(t, s, "b"); again.State().Playbook().StateHash() != want || again.ViewLag() != 0 {
		t.Error("reopened from the view: the state differs, or the view lags")
	}
	if _, err := s.PlaybookAt(t.Context(), "b", 12); err == nil {
		t.Error("version 12 does not exist, got no error")
	}
	if books, err := s.BooksWithView(t.Context()); err != nil || len(books) != 1 || books[0] != "b" {
		t.Errorf("books: %v, %v", books, err)
	}
}

func TestRacingWritersApplyEveryReflectionOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	const n, writers = 200, 3
	var all sync.WaitGroup
	for range writers {
		w := writer(t, s, "b")
		all.Go(func() {
			for i := range n {
				commit(t, w, add(fmt.Sprint("r", i), uint64(i+1)))
				if i%7 == 0 {
					if err := w.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w := writer(t, s, "b")
	if got := w.State().Playbook(); got.Len() != n || got.Version() != n || w.ViewLag() != 0 {
		t.Errorf("got %d bullets at version %d, view %d behind; want %d, %d, 0", got.Len(), got.Version(), w.ViewLag(), n, n)
	}
	seen := map[string]bool{}
	for b := range w.State().Playbook().All() {
		if seen[b.Content] {
			t.Errorf("%q twice", b.Content)
		}
		seen[b.Content] = true
	}
}

func TestTwoBooksMayBeginWithTheSameDelta(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for _, b := range []playbook.Book{"a", "b"} {
		w := writer(t, s, b)
		commit(t, w, add("r1", 1))
		commit(t, w, add("r2", 2))
		if got := w.State().Playbook().Len(); got != 2 {
			t.Errorf("book %s: got %d bullets, want 2", b, got)
		}
	}
}

func TestViewThatContradictsItsLogIsRepaired(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*testing.T, jetstream.KeyValue){
		"a bullet deleted":     func(t *testing.T, kv jetstream.KeyValue) { check(t, kv.Delete(t.Context(), "b.bullet.misc-00002")) },
		"the head deleted":     func(t *testing.T, kv jetstream.KeyValue) { check(t, kv.Delete(t.Context(), "b.head")) },
		"a stray bullet":       func(t *testing.T, kv jetstream.KeyValue) { stray(t, kv) },
		"head of another book": func(t *testing.T, kv jetstream.KeyValue) { otherHead(t, kv) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, nc := open(t)
			w := writer(t, s, "b")
			o := writer(t, s, "o")
			for i := range 5 {
				commit(t, w, add(fmt.Sprint("r", i), uint64(i+1)))
				commit(t, o, add(fmt.Sprint("other", i), uint64(i+1)))
				commit(t, o, add(fmt.Sprint("more", i), uint64(i+100)))
			}
			check(t, w.Flush(t.Context()))
			check(t, o.Flush(t.Context()))
			want := w.State().Playbook().StateHash()
			js, err := jetstream.New(nc)
			check(t, err)
			kv, err := js.KeyValue(t.Context(), events.BucketPlaybook)
			check(t, err)
			damage(t, kv)

			again := writer(t, s, "b")
			check(t, again.CheckView(t.Context())) // as a curator's sweep does
			check(t, again.Flush(t.Context()))
			f, wait, err := s.Follow(t.Context(), "b")
			check(t, err)
			defer wait()
			f.Read(func(p *playbook.Playbook, _ []byte) {
				if p.StateHash() != want || p.Version() != 5 {
					t.Errorf("repaired view: version %d with %d bullets, want version 5 as it was", p.Version(), p.Len())
				}
			})
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stray(t *testing.T, kv jetstream.KeyValue) {
	data, err := events.Marshal(&playbook.Bullet{ID: "misc-00099", Section: "others", Content: "stray"})
	check(t, err)
	_, err = kv.Put(t.Context(), "b.bullet.misc-00099", data)
	check(t, err)
}

func otherHead(t *testing.T, kv jetstream.KeyValue) {
	e, err := kv.Get(t.Context(), "o.head")
	check(t, err)
	_, err = kv.Put(t.Context(), "b.head", e.Value())
	check(t, err)
}

func TestFollowerSeesOnlyCompleteVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	w := writer(t, s, "b")
	// Every version tags all ten bullets, so a whole version has equal counters.
	commit(t, w, func(deltalog.State) ([]*playbook.Delta, error) {
		d := &playbook.Delta{}
		for i := range 10 {
			d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(i+1)), Section: "others", Content: fmt.Sprint(i)})
		}
		return []*playbook.Delta{d}, nil
	})
	check(t, w.Flush(t.Context()))
	f, wait, err := s.Follow(t.Context(), "b")
	check(t, err)
	defer wait()
	ctx, stop := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		for v := uint64(0); ctx.Err() == nil; v++ {
			if err := f.Wait(ctx, v); err != nil {
				return
			}
			f.Read(func(p *playbook.Playbook, _ []byte) {
				v = p.Version()
				for b := range p.All() {
					if b.Helpful != int(p.Version())-1 {
						t.Errorf("version %d holds a bullet with %d votes", p.Version(), b.Helpful)
					}
				}
			})
		}
	})
	for i := range 100 {
		commit(t, w, func(deltalog.State) ([]*playbook.Delta, error) {
			d := &playbook.Delta{Covers: []playbook.Cover{{ID: fmt.Sprint(i), Seq: uint64(i + 1)}}}
			for j := range 10 {
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: playbook.MintID("others", uint64(j+1)), Helpful: 1, Support: []int{0}})
			}
			return []*playbook.Delta{d}, nil
		})
		if i%3 == 0 {
			check(t, w.Flush(t.Context()))
		}
	}
	check(t, w.Flush(t.Context()))
	check(t, f.Wait(t.Context(), 101))
	stop()
	reader.Wait()
}

// TestMissingDeltaBreaksTheLog: a later delta refers to the missing one, so readers stop there.
func TestMissingDeltaBreaksTheLog(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	w := writer(t, s, "b")
	for i := range uint64(4) {
		commit(t, w, add(fmt.Sprint("r", i), i+1))
	}
	js, err := jetstream.New(nc)
	check(t, err)
	stream, err := js.Stream(t.Context(), events.StreamDeltas)
	check(t, err)
	check(t, stream.DeleteMsg(t.Context(), 3))
	if _, err := s.Writer(t.Context(), "b"); !errors.Is(err, deltalog.ErrBrokenLog) {
		t.Errorf("open: got %v, want ErrBrokenLog", err)
	}
	if err := s.ReadLog(t.Context(), "b", func(*deltalog.Record) error { return nil }); !errors.Is(err, deltalog.ErrBrokenLog) {
		t.Errorf("read: got %v, want ErrBrokenLog", err)
	}
	if v, err := s.Verify(t.Context(), "b"); err != nil || len(v.Strays) > 0 {
		t.Errorf("verify: got %+v, %v; want no strays", v, err)
	} else {
		finds(t, v, deltalog.Broken, deltalog.FindingUnreadable, "sequence 3")
	}
}

func TestDeltaOfANewerSchemaStopsTheWriter(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	w := writer(t, s, "b")
	commit(t, w, add("r1", 1))
	js, err := jetstream.New(nc)
	check(t, err)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{
		Subject: events.KindDelta.Subject("b"), Data: []byte{0x80}, Header: nats.Header{events.HeaderSchema: {"2"}},
	})
	check(t, err)
	if _, err := w.Commit(t.Context(), add("r2", 2)); !errors.Is(err, events.ErrNewerSchema) {
		t.Errorf("got %v, want ErrNewerSchema", err)
	}
}

func TestCommitThatLosesEveryRaceIsUnavailable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, _ := open(t)
	w, rival := writer(t, s, "b"), writer(t, s, "b")
	builds := 0
	_, err := w.Commit(t.Context(), func(state deltalog.State) ([]*playbook.Delta, error) {
		builds++
		commit(t, rival, add(fmt.Sprint("rival", builds), uint64(1+builds)))
		return add("late", 1)(state)
	})
	if !bus.IsUnavailable(err) {
		t.Errorf("got %v after %d attempts, want a temporary error", err, builds)
	}
	commit(t, w, add("late", 1))
	if got := w.State().Playbook().Len(); got != builds+1 {
		t.Errorf("got %d bullets, want the rival's %d and one", got, builds)
	}
}

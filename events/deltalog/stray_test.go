package deltalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// forged returns an encoded delta with the given links.
func forged(t testing.TB, version, seq uint64, chain []byte) []byte {
	t.Helper()
	data, err := events.Marshal(&playbook.Delta{Version: version, PrevSeq: seq, PrevChain: chain, Reason: "forged"})
	check(t, err)
	return data
}

// remove removes messages from DELTAS, as an operator does.
func (x *site) remove(seqs []uint64) {
	x.Helper()
	for _, seq := range seqs {
		check(x.T, stream(x).DeleteMsg(x.Context(), seq))
	}
}

// TestGarbageDoesNotDisableABook: with garbage on a book's subject, writers commit, readers skip it, and Verify reports it. Its removal by
// an operator changes nothing.
func TestGarbageDoesNotDisableABook(t *testing.T) {
	t.Parallel()
	ours := events.SchemaHeader()
	for name, garbage := range map[string]func(*site){
		"an empty message":          func(x *site) { x.append(nil, nil) },
		"an empty message of ours":  func(x *site) { x.append(nil, ours) },
		"a status without a body":   func(x *site) { x.append(nil, nats.Header{"Status": {"404"}}) },
		"the first delta again":     func(x *site) { x.append(x.log()[0], ours) },
		"a delta of another chain":  func(x *site) { x.append(forged(x.T, 4, 3, []byte("another")), ours) },
		"a delta of another number": func(x *site) { x.append(forged(x.T, 9, 3, x.w.State().Chain()), ours) },
		"a delta of the future":     func(x *site) { x.append(forged(x.T, 6, 77, []byte("another")), ours) },
		"a delta that is its own":   func(x *site) { x.append(forged(x.T, 5, 4, []byte("another")), ours) },
		"another installation's log": func(x *site) {
			for _, data := range newSite(x.T, "other", 6).log() {
				x.append(data, ours)
			}
		},
		"a delta after those of another book": func(x *site) {
			other := writer(x.T, x.s, "other")
			commit(x, other, add("o1", 1))
			commit(x, other, add("o2", 2))
			x.append(x.log()[4], ours)
		},
		"an operation of a newer program that does not follow": func(x *site) {
			data, err := events.Marshal(&playbook.Delta{Version: 9, PrevSeq: 1, PrevChain: []byte("x"), Ops: []playbook.Op{{Kind: "SPLIT", Bullet: "b"}}})
			check(x.T, err)
			x.append(data, ours)
		},
		"the server's answer to a request": func(x *site) {
			check(x.T, x.js.Conn().PublishRequest("$JS.API.INFO", events.KindDelta.Subject("b"), nil))
			check(x.T, x.js.Conn().Flush())
			for len(x.log()) < 4 { // the server replies on the subject and stores the reply
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newSite(t, "r", 3)
			garbage(x)
			count := func() (n int) {
				check(t, x.s.ReadLog(t.Context(), "b", func(*deltalog.Record) error { n++; return nil }))
				return n
			}
			if n := count(); n != 3 {
				t.Errorf("read %d deltas, want 3", n)
			}
			commit(t, x.w, add("r4", 4)) // a writer that had the book open
			commit(t, writer(t, x.s, "b"), add("r5", 5))
			commit(t, x.w, add("r6", 6))
			check(t, x.w.Flush(t.Context()))
			p, err := x.s.PlaybookAt(t.Context(), "b", 6)
			check(t, err)
			if n := count(); n != 6 || p.Len() != 6 {
				t.Errorf("after it: %d deltas with %d bullets, want 6", n, p.Len())
			}
			since := 0
			check(t, x.s.DeltasAfter(t.Context(), "b", 2, func(*deltalog.Record) error { since++; return nil }))
			recent := 0
			check(t, x.w.RecentDeltas(t.Context(), 1000, func(*playbook.Delta) { recent++ }))
			if since != 4 || recent != 6 {
				t.Errorf("read %d deltas after the second, and %d of the newest; want 4 and 6", since, recent)
			}
			v := x.verify()
			if v.Deltas != 6 || len(v.Strays) == 0 {
				t.Errorf("got %+v, want 6 deltas and strays", v)
			}
			finds(t, v, deltalog.Skipped, deltalog.FindingStray, "nats stream rmm DELTAS")
			var seqs []uint64
			for _, s := range v.Strays {
				seqs = append(seqs, s.Seq)
			}
			x.remove(seqs)
			if after := x.verify(); len(after.Findings) > 0 || after.ChainHash != v.ChainHash {
				t.Errorf("after the removal: got %+v, want no findings and the same log", after)
			}
			commit(t, x.w, add("r7", 7))
		})
	}
}

// TestRemovedStrayAtTheEndDoesNotStopAWriter: the writer has read the removed stray, and its compare-and-swap would
// expect that sequence.
func TestRemovedStrayAtTheEndDoesNotStopAWriter(t *testing.T) {
	t.Parallel()
	x := newSite(t, "r", 2)
	for range 3 {
		x.append([]byte("?"), nil)
	}
	check(t, x.w.CheckView(t.Context()))
	for _, seq := range []uint64{5, 3, 4} {
		x.remove([]uint64{seq})
		check(t, x.w.CheckView(t.Context()))
	}
	commit(t, x.w, add("r3", 3))
	if v := x.verify(); v.Deltas != 3 || len(v.Strays) > 0 {
		t.Errorf("got %+v, want 3 deltas and no strays", v)
	}
}

// TestMessageThatTheViewContainsIsNotAStray: the last delta was damaged, and only the view shows that it was a delta.
func TestMessageThatTheViewContainsIsNotAStray(t *testing.T) {
	t.Parallel()
	whole, x := newSite(t, "r", 3), newSite(t, "r", 0)
	for i, data := range whole.log() {
		if i == 2 {
			data = data[:len(data)/2]
		}
		x.append(data, events.SchemaHeader())
	}
	x.copyView(whole)
	if _, err := x.s.Writer(t.Context(), "b"); !errors.Is(err, deltalog.ErrBrokenLog) {
		t.Errorf("got %v, want ErrBrokenLog", err)
	}
	finds(t, x.verify(), deltalog.Broken, deltalog.FindingUnreadable)
	if v := x.verify(); len(v.Strays) > 0 {
		t.Errorf("got strays %v, want none", v.Strays)
	}
}

// TestUnknownOperationStopsOnlyItsBook: the error is ErrNewerSchema and not ErrBrokenLog.
func TestUnknownOperationStopsOnlyItsBook(t *testing.T) {
	t.Parallel()
	x := newSite(t, "r", 3)
	data, err := events.Marshal(&playbook.Delta{
		Version: 4, PrevSeq: 3, PrevChain: x.w.State().Chain(), Ops: []playbook.Op{{Kind: "SPLIT", Bullet: "misc-00001"}},
	})
	check(t, err)
	x.append(data, events.SchemaHeader())
	_, err = x.s.Writer(t.Context(), "b")
	if !errors.Is(err, events.ErrNewerSchema) || errors.Is(err, deltalog.ErrBrokenLog) {
		t.Errorf("open: got %v, want only ErrNewerSchema", err)
	}
	if _, err := x.w.Commit(t.Context(), add("r4", 4)); !errors.Is(err, events.ErrNewerSchema) {
		t.Errorf("commit: got %v, want ErrNewerSchema", err)
	}
	finds(t, x.verify(), deltalog.Broken, deltalog.FindingNewerSchema)
	commit(t, writer(t, x.s, "other"), add("r1", 1))
}

// TestGarbageBetweenRacingWriters: writers race on a book while garbage of every kind is stored between their deltas.
// Readers see every commit once, and the same log after the garbage is removed.
func TestGarbageBetweenRacingWriters(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	x := &site{T: t, s: s, js: js}
	rounds := 12
	switch {
	case os.Getenv("DEBRIEF_LONG") != "":
		rounds = 300
	case testing.Short():
		rounds = 3
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 14))
		book := playbook.Book(fmt.Sprint("b", round))
		ctx := t.Context()
		const writers, each = 3, 4
		garbage := make([][]byte, 5+rng.IntN(20))
		for i := range garbage {
			garbage[i] = make([]byte, rng.IntN(40))
			for j := range garbage[i] {
				garbage[i][j] = byte(rng.Uint32())
			}
		}
		forge := rng.Perm(len(garbage))
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				w, err := s.Writer(ctx, book)
				if err == nil {
					err = w.OpenIndex(ctx)
				}
				for n := range each {
					if err == nil {
						id := fmt.Sprint("r", i, "-", n)
						_, err = w.Commit(ctx, func(st deltalog.State) ([]*playbook.Delta, error) { return add(id, 1)(st) })
					}
					if err == nil && n%2 == 0 {
						err = w.Flush(ctx)
					}
				}
				if err != nil {
					t.Errorf("writer %d of %s: %v", i, book, err)
				}
			})
		}
		all.Go(func() {
			var last jetstream.RawStreamMsg
			for i, data := range garbage {
				header := nats.Header(events.SchemaHeader())
				switch forge[i] % 5 {
				case 0:
					header = nil
				case 1: // the newest delta again
					data = last.Data
				case 2: // a fork of the log; its version does not suggest a lost delta before it
					data = forged(t, 1000+uint64(len(data)), last.Sequence, data)
				case 3: // a fork at the end of the log
					data = forged(t, versionOf(last.Data)+1, last.Sequence, append(data, 1))
				}
				_, err := js.PublishMsg(ctx, &nats.Msg{Subject: events.KindDelta.Subject(book), Data: data, Header: header})
				check(t, err)
				if m, err := stream(x).GetLastMsgForSubject(ctx, events.KindDelta.Subject(book)); err == nil {
					last = *m
				}
			}
		})
		all.Wait()
		before := folded(t, s, book)
		v, err := s.Verify(ctx, book)
		check(t, err)
		var seqs []uint64
		for _, stray := range v.Strays {
			seqs = append(seqs, stray.Seq)
		}
		if len(seqs) != len(garbage) || v.Deltas != writers*each {
			t.Fatalf("got %d strays of %d messages and %d deltas of %d: %v", len(seqs), len(garbage), v.Deltas, writers*each, v.Findings)
		}
		x.remove(seqs)
		if after := folded(t, s, book); after != before {
			t.Errorf("without the garbage the log folds to %s, with it to %s", after, before)
		}
	}
}

// versionOf returns the version of an encoded delta, 0 for other data.
func versionOf(data []byte) uint64 {
	d, err := events.DecodeDelta(data)
	if err != nil {
		return 0
	}
	return d.Version
}

func stream(x *site) jetstream.Stream {
	s, err := x.js.Stream(x.Context(), events.StreamDeltas)
	check(x.T, err)
	return s
}

// folded returns the chain hash and the state hash of a book's log.
func folded(t *testing.T, s *deltalog.Store, b playbook.Book) string {
	var p playbook.Playbook
	var chain []byte
	err := s.ReadLog(context.Background(), b, func(r *deltalog.Record) error {
		chain = r.Chain
		_, err := p.Apply(&r.Delta)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x %x", chain, p.StateHash())
}

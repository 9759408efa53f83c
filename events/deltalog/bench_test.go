package deltalog_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/natsd"
	"debrief/playbook"
)

// syncs are the sync settings of the server: at intervals, or each message before its ack.
var syncs = []string{"1m", natsd.SyncAlways}

// disk returns a store on a server with file storage.
func disk(b *testing.B, sync string) (*deltalog.Store, jetstream.JetStream) {
	b.Helper()
	srv, err := natsd.Start(natsd.Config{Dir: b.TempDir(), Sync: sync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	nc, err := srv.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	conn, err := bus.Open(b.Context(), nc, bus.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return deltalog.New(conn.JetStream()), conn.JetStream()
}

// cover returns the cover of a reflection, with evidence of the usual length.
func cover(i int) playbook.Cover {
	return playbook.Cover{
		ID: string(events.Hash("reflection", fmt.Sprint(i))), Seq: uint64(i + 1),
		Evidence: &playbook.Evidence{
			Execution: fmt.Sprintf("%d-0ddba11c", i+1), Session: fmt.Sprintf("session-%06d", i/8), Source: "support-desk",
			Excerpt: strings.Repeat("Invoice 4711 has a discount and two taxes. ", 3)[:120],
			Outcome: "success", Score: 1, Reflector: "rules-7/prompt-3", Model: "gpt-4o-mini",
		},
	}
}

// tags returns the delta of one reflection that votes on five of n bullets.
func tags(i, n int) *playbook.Delta {
	d := &playbook.Delta{
		Author: "curator", Time: time.Unix(int64(i), 0).UTC(), Floor: uint64(max(0, i-100)), Covers: []playbook.Cover{cover(i)},
	}
	for j := range 5 {
		d.Ops = append(d.Ops, playbook.Op{
			Kind: playbook.Tag, Bullet: playbook.MintID("others", uint64((i*7+j*n/5)%n+1)), Helpful: 1, Support: []int{0},
		})
	}
	return d
}

// lesson returns the delta of one reflection that adds a bullet of the usual length.
func lesson(i int, number uint64) *playbook.Delta {
	d := tags(i, 1)
	d.Model, d.Prompt = "gpt-4o-mini", "curator-5"
	d.Ops = []playbook.Op{{
		Kind: playbook.Add, Bullet: playbook.MintID("others", number), Section: "others", Support: []int{0},
		Content: fmt.Sprintf("When invoice %d has a discount, take it off before the tax and round once, at the end of it all; %s.",
			i, "the tool order_lookup answers with net amounts, so ask pricing for the gross one"),
	}}
	return d
}

// single builds a change of one delta.
func single(d *playbook.Delta) func(deltalog.State) ([]*playbook.Delta, error) {
	return func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{d}, nil }
}

// fill adds n bullets to a book.
func fill(b testing.TB, w *deltalog.Writer, n int) {
	b.Helper()
	var change []*playbook.Delta
	for i := range n {
		if i%800 == 0 {
			change = append(change, &playbook.Delta{Author: "bench"})
		}
		d := change[len(change)-1]
		op := lesson(i, uint64(i+1)).Ops[0]
		op.Support = nil
		d.Ops = append(d.Ops, op)
	}
	if _, err := w.Commit(b.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return change, nil }); err != nil {
		b.Fatal(err)
	}
	if err := w.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// rawCAS publishes payloads of one size with compare-and-swap. It is the baseline: the server without this package.
type rawCAS struct {
	js   jetstream.JetStream
	data []byte
	last uint64
}

func newRawCAS(b *testing.B, js jetstream.JetStream, size int) *rawCAS {
	b.Helper()
	_, err := js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: "RAW", Subjects: []string{"raw.*"}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		DenyPurge: true, AllowDirect: true, Duplicates: 2 * time.Minute,
	})
	if err != nil {
		b.Fatal(err)
	}
	return &rawCAS{js: js, data: make([]byte, size)}
}

func (r *rawCAS) publish(b *testing.B) {
	ack, err := r.js.PublishMsg(b.Context(), &nats.Msg{Subject: "raw.b", Data: r.data}, jetstream.WithExpectLastSequencePerSubject(r.last))
	if err != nil {
		b.Fatal(err)
	}
	r.last = ack.Sequence
}

func BenchmarkRawCompareAndSwap(b *testing.B) {
	for _, sync := range syncs {
		b.Run("sync="+sync, func(b *testing.B) {
			_, js := disk(b, sync)
			data, err := events.EncodeDelta(versioned(tags(1, 1000)))
			if err != nil {
				b.Fatal(err)
			}
			r := newRawCAS(b, js, len(data))
			b.ReportAllocs()
			for b.Loop() {
				r.publish(b)
			}
		})
	}
}

// versioned sets the version and the links of a delta, so that it can be encoded and has a realistic size.
func versioned(d *playbook.Delta) *playbook.Delta {
	d.Version, d.PrevSeq, d.PrevChain = 1000, 1000, make([]byte, 32)
	return d
}

// BenchmarkCommitTagOnly measures commits of a delta with five votes and compares them with rawCAS. Blocks of both
// alternate, so that they run under the same load.
func BenchmarkCommitTagOnly(b *testing.B) {
	for _, sync := range syncs {
		b.Run("sync="+sync, func(b *testing.B) {
			s, js := disk(b, sync)
			w := writer(b, s, "b")
			fill(b, w, 1000)
			data, err := events.EncodeDelta(versioned(tags(1, 1000)))
			if err != nil {
				b.Fatal(err)
			}
			r := newRawCAS(b, js, len(data))
			const block = 100
			next := make([]*playbook.Delta, block)
			draft := func(from int) {
				for i := range next {
					next[i] = tags(from+i, 1000)
				}
			}
			draft(0)
			var raw, ours time.Duration
			var rawN, oursN int
			b.ReportAllocs()
			began := time.Now()
			for i := 0; b.Loop(); i++ {
				if i%block == 0 && i > 0 {
					b.StopTimer()
					ours, oursN = ours+time.Since(began), oursN+block
					began = time.Now()
					for range block {
						r.publish(b)
					}
					raw, rawN = raw+time.Since(began), rawN+block
					// Curators flush at intervals and not per commit, so the flush is not measured.
					if err := w.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
					draft(i)
					b.StartTimer()
					began = time.Now()
				}
				if _, err := w.Commit(b.Context(), single(next[i%block])); err != nil {
					b.Fatal(err)
				}
			}
			if rawN > 0 {
				ratio := raw.Seconds() / float64(rawN) / (ours.Seconds() / float64(oursN))
				b.ReportMetric(100*ratio, "%raw")
				b.ReportMetric(float64(rawN)/raw.Seconds(), "raw/s")
				b.ReportMetric(float64(oursN)/ours.Seconds(), "commits/s")
			}
		})
	}
}

// BenchmarkDeltaBytes measures the bytes of one delta in the log and in the view, which is flushed after each delta, for
// books of different sizes.
func BenchmarkDeltaBytes(b *testing.B) {
	for _, kind := range []string{"tags", "add"} {
		for _, n := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/bullets=%d", kind, n), func(b *testing.B) {
				s, js := disk(b, "1m")
				w := writer(b, s, "b")
				fill(b, w, n)
				written := keysWritten(b, js)
				logged, flushed, count := 0, 0, 0
				for b.Loop() {
					d := tags(100_000+count, n) // the same number of digits in each
					if kind == "add" {
						d = lesson(100_000+count, w.State().Playbook().LastMinted()+1)
					}
					if _, err := w.Commit(b.Context(), single(d)); err != nil {
						b.Fatal(err)
					}
					data, err := events.EncodeDelta(d)
					if err != nil {
						b.Fatal(err)
					}
					if err := w.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					logged, flushed, count = logged+len(data), flushed+written(), count+1
					b.StartTimer()
				}
				b.ReportMetric(float64(logged)/float64(count), "log-B/delta")
				b.ReportMetric(float64(flushed)/float64(count), "view-B/delta")
			})
		}
	}
}

// keysWritten returns a function that counts the bytes of keys and values written to the view since its last call.
func keysWritten(b *testing.B, js jetstream.JetStream) func() int {
	st, err := js.Stream(b.Context(), "KV_"+events.BucketPlaybook)
	if err != nil {
		b.Fatal(err)
	}
	next := st.CachedInfo().State.LastSeq + 1
	return func() (size int) {
		for {
			m, err := st.GetMsg(b.Context(), next)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return size
			}
			if err != nil {
				b.Fatal(err)
			}
			size, next = size+len(m.Subject)+len(m.Data), next+1
		}
	}
}

// BenchmarkFold100k reads and folds a log of 100,000 deltas: 80 of 100 are votes, 15 add a bullet, 5 change one.
func BenchmarkFold100k(b *testing.B) {
	const n = 100_000
	s, js := disk(b, "1m")
	size := longLog(b, js, "b", n)
	b.Run("log", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			count := 0
			if err := s.ReadLog(b.Context(), "b", func(*deltalog.Record) error { count++; return nil }); err != nil || count != n {
				b.Fatal(count, err)
			}
		}
	})
	b.Run("at", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.PlaybookAt(b.Context(), "b", n); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(size)/n, "B/delta")
	})
	b.Run("writer", func(b *testing.B) { // without a view
		for b.Loop() {
			writer(b, s, "b")
		}
	})
}

// BenchmarkView10k opens a writer from a view of 10,000 bullets.
func BenchmarkView10k(b *testing.B) {
	s, _ := disk(b, "1m")
	fill(b, writer(b, s, "b"), 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if got := writer(b, s, "b").State().Playbook().Len(); got != 10_000 {
			b.Fatal(got)
		}
	}
}

// longLog stores n deltas of a book in bulk on an empty server.
func longLog(b testing.TB, js jetstream.JetStream, book playbook.Book, n int) (size int) {
	b.Helper()
	var chain []byte
	var last uint64
	for i := range n {
		var d *playbook.Delta
		switch {
		case i < 100 || i%20 < 3:
			last++
			d = lesson(i, last)
		case i%20 == 3:
			d = lesson(i, uint64(i)%last+1)
			d.Ops[0].Kind = playbook.Update
		default:
			d = tags(i, int(last))
		}
		d.Version, d.PrevSeq, d.PrevChain = uint64(i+1), uint64(i), chain
		data, err := events.EncodeDelta(d)
		if err != nil {
			b.Fatal(err)
		}
		sum := sha256.Sum256(data)
		chain, size = sum[:], size+len(data)
		msg := &nats.Msg{Subject: events.KindDelta.Subject(book), Data: data, Header: events.SchemaHeader()}
		if _, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		b.Fatal("the log is not stored after a minute")
	}
	return size
}

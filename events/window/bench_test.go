package window_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/natsd"
	"debrief/events/streams"
	"debrief/events/window"
)

// usual is an interaction of the usual size, 1.9 KB: a question, two calls of a tool, an answer.
func usual(session string, n int) *events.Interaction {
	i := turn(session, n)
	i.Question = strings.Repeat("Why does invoice 4711 not add up? ", 6)
	for range 2 {
		i.Steps = append(i.Steps, events.Step{
			Speaker: "assistant", Text: strings.Repeat("I look the order up. ", 5),
			Calls: []events.ToolCall{{Tool: "order_lookup", Arguments: `{"id":4711}`, Output: strings.Repeat(`{"net":12.5,"tax":2.5}`, 20)}},
		})
	}
	i.Answer = strings.Repeat("The discount goes off before the tax. ", 10)
	return i
}

// percentiles reports the times of a benchmark's operations.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Microseconds()), fmt.Sprintf("p%d-µs", p))
	}
}

// fill gives each of so many sessions a whole window: one session after the other, as where each is one conversation in
// one sitting, or turn by turn, each entry as far from the session's next as can be.
func fill(b *testing.B, s *window.Store, sessions int, mixed bool) {
	b.Helper()
	add := func(i, n int) {
		session := fmt.Sprint("session-", i)
		if err := s.Add(b.Context(), "b", "", session, usual(session, n)); err != nil {
			b.Fatal(err)
		}
	}
	for at := range sessions * streams.WindowHistory {
		if mixed {
			add(at%sessions, at/sessions+1)
		} else {
			add(at/streams.WindowHistory, at%streams.WindowHistory+1)
		}
	}
}

// BenchmarkInteractions reads windows at random. The cold reads are the first after a start of the server, which then
// reads every block of its files that holds an entry; it forgets them again when nobody wants them for ten seconds.
func BenchmarkInteractions(b *testing.B) {
	for _, order := range []string{"sessions", "turns"} {
		b.Run("10000 by "+order, func(b *testing.B) {
			const sessions = 10_000
			cfg := natsd.Config{Dir: b.TempDir(), Sync: "1m"}
			stores, srv := connections(b, 1, cfg)
			fill(b, stores[0], sessions, order == "turns")
			srv.Close()
			stores, _ = connections(b, 1, cfg)
			read := func() time.Duration {
				session := fmt.Sprint("session-", rand.N(sessions))
				begun := time.Now()
				list, damaged, err := stores[0].Interactions(b.Context(), "b", "", session)
				took := time.Since(begun)
				if err != nil || damaged != 0 || len(list) != streams.WindowHistory {
					b.Fatal(len(list), damaged, err)
				}
				return took
			}
			cold := read()
			for range 300 {
				read()
			}
			var took []time.Duration
			for b.Loop() {
				took = append(took, read())
			}
			percentiles(b, took)
			b.ReportMetric(float64(cold.Microseconds()), "cold-µs")
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, sync := range []string{"1m", natsd.SyncAlways} {
		b.Run("sync="+sync, func(b *testing.B) {
			stores, _ := connections(b, 1, natsd.Config{Dir: b.TempDir(), Sync: sync})
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				session := fmt.Sprint("session-", n%1000)
				i := usual(session, n)
				begun := time.Now()
				if err := stores[0].Add(b.Context(), "b", "", session, i); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			percentiles(b, took)
		})
	}
}

// BenchmarkFirstCopy records the receipts of events, each once. The values of a playbook grow with them.
func BenchmarkFirstCopy(b *testing.B) {
	for _, known := range []int{0, 100_000} {
		b.Run(fmt.Sprint("after ", known), func(b *testing.B) {
			stores, _ := connections(b, 1, natsd.Config{Dir: b.TempDir(), Sync: "1m"})
			at := uint64(0)
			add := func() {
				at++
				if first, err := stores[0].ClaimFirstCopy(b.Context(), "b", window.EffectReceipt, events.NewID(), at); err != nil || !first {
					b.Fatal(first, err)
				}
			}
			for range known {
				add()
			}
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				add()
				took = append(took, time.Since(begun))
			}
			percentiles(b, took)
		})
	}
}

// BenchmarkVectors reads a thousand embeddings of the usual dimension.
func BenchmarkVectors(b *testing.B) {
	stores, _ := connections(b, 1, natsd.Config{Dir: b.TempDir(), Sync: "1m"})
	s := stores[0]
	keys, list := embeddings(1000, 1536)
	if err := s.PutVectors(b.Context(), "m", keys, list); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		got, err := s.Vectors(b.Context(), "m", keys)
		if err != nil || len(got[999]) != 1536 {
			b.Fatal(err)
		}
	}
}

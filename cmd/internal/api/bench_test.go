package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// benchSizes are the numbers of stored bullets and executions of BenchmarkPages. DEBRIEF_BENCH_EXECUTIONS sets the latter.
func benchSizes(b *testing.B) (bullets, executions int) {
	executions, err := strconv.Atoi(os.Getenv("DEBRIEF_BENCH_EXECUTIONS"))
	if err != nil {
		executions = 100_000
	}
	return 10_000, executions
}

// BenchmarkPages measures the lists that the console shows, on stored data, in process. It also
// reports the time that the index needs after a start.
func BenchmarkPages(b *testing.B) {
	conn, _ := bustest.Open(b, bus.Policy{})
	bullets, n := benchSizes(b)
	fillBullets(b, conn, bullets)
	fillExecutions(b, conn, n)
	began := time.Now()
	index := runIndex(b, conn)
	for index.Executions.Curve("b", 1, uint64(n)).Behind > 0 {
		time.Sleep(time.Millisecond)
	}
	b.Logf("%d bullets, %d executions; the index was complete after %s", bullets, n, time.Since(began).Round(time.Millisecond))
	h := newHandler(desk{}, Options{Conn: conn, Index: index, Log: zerolog.Nop()}, defaultLimits)
	for _, path := range []string{
		"/overview", "/books", "/books/b/curve?limit=200", "/books/b/bullets", "/books/b/bullets?q=parcel+77&sort=lift", "/books/b/bullets/misc-05000", "/books/b/gate", "/books/b/review",
		"/books/b/versions", "/books/b/versions/newest", "/books/b/diff?from=19", "/books/b/bullets/misc-05000/history",
		"/books/b/executions", "/books/b/executions?outcome=failure", "/books/b/executions?session=s-3", "/books/b/executions?bullet=misc-00003", "/books/b/executions?task=t-5", "/books/b/sessions", "/dead", "/runs",
	} {
		b.Run(path, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+prefix+path, nil)
				began := time.Now()
				h.ServeHTTP(w, r)
				took = append(took, time.Since(began))
				if w.Code != http.StatusOK {
					b.Fatalf("got %d %s", w.Code, w.Body)
				}
			}
			slices.Sort(took)
			for _, p := range []int{50, 95} {
				b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
			}
		})
	}
}

// fillBullets stores a playbook, and its view, in twenty versions.
func fillBullets(b *testing.B, conn *bus.Conn, size int) {
	b.Helper()
	w, err := deltalog.New(conn.JetStream()).Writer(b.Context(), "b")
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < size; from += size / 20 {
		_, err := w.Commit(b.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			d := &playbook.Delta{Author: "bench", Time: time.Now().UTC()}
			for i := from; i < from+size/20; i++ {
				d.Ops = append(d.Ops, playbook.Op{
					Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(i+1)), Section: "others",
					Content: fmt.Sprintf("Check the customs form of parcel %d before it leaves the warehouse, and attach the invoice to the outside of the box.", i),
				})
			}
			return []*playbook.Delta{d}, nil
		})
		if err == nil {
			err = w.Flush(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// fillExecutions stores executions of about 2 KB.
func fillExecutions(b *testing.B, conn *bus.Conn, n int) {
	b.Helper()
	text := strings.Repeat("The discount goes off before the tax. ", 10)
	var group sync.WaitGroup
	next := make(chan int)
	for range 16 {
		group.Go(func() {
			for i := range next {
				e := &events.Execution{
					ID: events.NewID(), RunID: fmt.Sprint("t-", i), Session: fmt.Sprint("s-", i/20), Question: text, Answer: text, Outcome: events.Outcome{Label: events.Success, Score: 1},
					Version: uint64(1 + i*20/n), Cited: []playbook.BulletID{playbook.MintID("others", uint64(i%500+1))}, Model: "m",
					Usage: chat.Usage{Calls: 1, InputTokens: 1000, OutputTokens: 100, CachedTokens: 600, Cost: 0.01}, Started: time.Now().UTC(), ContextID: "c",
					Steps: []events.Step{{Text: text, Calls: []events.ToolCall{{Tool: "lookup", Arguments: `{"id":4711}`, Output: text}}}},
				}
				if i%4 == 0 {
					e.Outcome = events.Outcome{Label: events.Failure}
				}
				for k := range 5 {
					e.Shown = append(e.Shown, events.ShownBullet{ID: playbook.MintID("others", uint64((i+k)%500+1)), Content: "Check the customs form of a parcel."})
				}
				e.Book = "b"
				if _, err := conn.Publish(b.Context(), e, bus.PublishOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

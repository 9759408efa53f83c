package generator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/streams"
	"debrief/events/window"
	"debrief/generator"
	"debrief/playbook"
)

// textGenerator writes texts of users and agents of an invoice office.
type textGenerator struct{ *rand.Rand }

var (
	things = strings.Fields(`invoices shelves couriers currencies rounding discounts refunds deadlines passwords backups orders taxes
		parsers imports servers tables columns exports customers returns contracts ledgers balances stamps parcels warehouses tests
		branches releases tokens pages replies accounts limits queues dates totals sheets prices weights`)
	small = strings.Fields("the a of and to reads writes when is done before every was checked by it ran again with all")
)

func (g textGenerator) thing() string { return things[g.IntN(len(things))] }

func (g textGenerator) prose(size int) string {
	var out strings.Builder
	for out.Len() < size {
		switch g.IntN(20) {
		case 0:
			fmt.Fprintf(&out, "%d.%02d CHF. ", g.IntN(1000), g.IntN(100))
		case 1:
			fmt.Fprintf(&out, "See /srv/run_%d/out.csv.\n", g.IntN(1000))
		case 2, 3, 4:
			out.WriteString(g.thing() + " ")
		default:
			out.WriteString(small[g.IntN(len(small))] + " ")
		}
	}
	return out.String()[:size]
}

func (g textGenerator) steps(n int) (list []events.Step) {
	for range n {
		list = append(list, events.Step{Speaker: chat.Assistant, Text: g.prose(100), Calls: []events.ToolCall{{
			Tool: "read_file", Arguments: fmt.Sprintf(`{"path": "src/load_%d.py"}`, g.IntN(50)), Output: g.prose(450), Outcome: events.Success,
		}}})
	}
	return list
}

// execution returns an execution of typical size, 2 KB.
func (g textGenerator) execution(turn int) *events.Execution {
	e := &events.Execution{
		Book:  "b",
		RunID: fmt.Sprint("task-", turn), Session: "s", Turn: turn, Started: time.Date(2026, 1, 1, 0, turn, 0, 0, time.UTC),
		Question: g.prose(250), Steps: g.steps(2), Answer: g.prose(500), Outcome: events.Outcome{Label: events.Success, Score: 1},
	}
	e.ID = events.ExecutionID(e.Book, "", e.RunID, 0)
	return e
}

// write commits a playbook of n bullets, in deltas of maximum size.
func (g textGenerator) write(b *testing.B, conn *bus.Conn, n int) {
	b.Helper()
	w, err := deltalog.New(conn.JetStream()).Writer(b.Context(), "b")
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < n; from += 500 {
		_, err := w.Commit(b.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			cb := &playbook.Delta{Author: "bench", Time: time.Now().UTC()}
			for i := range 500 {
				cb.Ops = append(cb.Ops, playbook.Op{
					Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(from+i+1)), Section: "others",
					Content: fmt.Sprintf("Before you sort %s with %d %s, check all %s and write down the %s.", g.thing(), g.IntN(90), g.thing(), g.thing(), g.thing()),
				})
			}
			return []*playbook.Delta{cb}, nil
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// live stores the turns of a session from first to until, as reports of an agent do. Each goes to the stream of
// executions; the last 20 also go to the window.
func (g textGenerator) live(b *testing.B, conn *bus.Conn, w *window.Store, first, until int) {
	b.Helper()
	for turn := first + 1; turn <= until; turn++ {
		e := g.execution(turn)
		r, err := conn.Publish(b.Context(), e, bus.PublishOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if turn > until-streams.WindowHistory {
			if err := w.Add(b.Context(), "b", "", "s", events.NewInteraction(r.Handle, e)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkContext builds whole contexts on an embedded server with a playbook of 10,000 bullets. It reads window,
// marks and reflections and recalls older turns. It varies the length of the session and the recall scope.
func BenchmarkContext(b *testing.B) {
	conn, nc := bustest.Open(b, bus.Policy{})
	c := textGenerator{rand.New(rand.NewPCG(1, 2))}
	c.write(b, conn, 10_000)
	w := window.New(nc, conn.JetStream())
	stored := 0
	for _, history := range []int{10, 1000, 100_000} {
		c.live(b, conn, w, stored, history)
		stored = history
		for _, scope := range []generator.Recall{generator.RecallNone, generator.RecallSession} {
			b.Run(fmt.Sprintf("history=%d/recall=%s", history, scope), func(b *testing.B) {
				builder := generator.NewContextBuilder(conn, nil, generator.Config{Recall: scope, RecallMemory: 4 << 30})
				defer builder.Close()
				builder.WaitLoaded(b.Context(), "b", 10*time.Minute)
				r := &events.ContextRequest{Book: "b", Session: "s", Steps: c.steps(10), DryRun: true}
				var took []time.Duration
				tokens := 0
				b.ReportAllocs()
				for b.Loop() {
					r.Query = fmt.Sprintf("Which %s failed, and what about the %s of last week?", c.thing(), c.thing())
					start := time.Now()
					reply, err := builder.Context(b.Context(), r)
					took = append(took, time.Since(start))
					if err != nil || len(reply.Manifest.Warnings) > 0 {
						b.Fatal(err, reply)
					}
					tokens = reply.Manifest.Tokens
				}
				took = took[min(1, len(took)-1):] // the first one loads the playbook
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(tokens), "tokens")
			})
		}
	}
}

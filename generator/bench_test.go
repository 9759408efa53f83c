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
	"debrief/events/window"
	"debrief/generator"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// clerk writes what people and agents of an invoice desk say.
type clerk struct{ *rand.Rand }

var (
	things = strings.Fields(`invoices shelves couriers currencies rounding discounts refunds deadlines passwords backups orders taxes
		parsers imports servers tables columns exports customers returns contracts ledgers balances stamps parcels warehouses tests
		branches releases tokens pages replies accounts limits queues dates totals sheets prices weights`)
	small = strings.Fields("the a of and to reads writes when is done before every was checked by it ran again with all")
)

func (c clerk) thing() string { return things[c.IntN(len(things))] }

func (c clerk) prose(size int) string {
	var out strings.Builder
	for out.Len() < size {
		switch c.IntN(20) {
		case 0:
			fmt.Fprintf(&out, "%d.%02d CHF. ", c.IntN(1000), c.IntN(100))
		case 1:
			fmt.Fprintf(&out, "See /srv/run_%d/out.csv.\n", c.IntN(1000))
		case 2, 3, 4:
			out.WriteString(c.thing() + " ")
		default:
			out.WriteString(small[c.IntN(len(small))] + " ")
		}
	}
	return out.String()[:size]
}

func (c clerk) steps(n int) (list []events.Step) {
	for range n {
		list = append(list, events.Step{Speaker: chat.Assistant, Text: c.prose(100), Calls: []events.ToolCall{{
			Tool: "read_file", Arguments: fmt.Sprintf(`{"path": "src/load_%d.py"}`, c.IntN(50)), Output: c.prose(450), Outcome: events.Success,
		}}})
	}
	return list
}

// execution is one of the usual size, 2 KB.
func (c clerk) execution(turn int) *events.Execution {
	e := &events.Execution{
		TaskID: fmt.Sprint("task-", turn), Session: "s", Turn: turn, Started: time.Date(2026, 1, 1, 0, turn, 0, 0, time.UTC),
		Question: c.prose(250), Steps: c.steps(2), Answer: c.prose(500), Outcome: events.Outcome{Label: events.Success, Score: 1},
	}
	e.Book = "b"
	e.ID = events.ExecutionID(e.Book, e.TaskID, 0)
	return e
}

// write makes a book of n bullets, in deltas as large as they get.
func (c clerk) write(b *testing.B, conn *bus.Conn, n int) {
	b.Helper()
	w, err := natskv.New(conn.JetStream()).Writer(b.Context(), "b")
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < n; from += 500 {
		_, err := w.Commit(b.Context(), func(natskv.State) ([]*playbook.Delta, error) {
			d := &playbook.Delta{Author: "bench", Time: time.Now().UTC()}
			for i := range 500 {
				d.Ops = append(d.Ops, playbook.Op{
					Kind: playbook.Add, Bullet: playbook.MintID("others", uint64(from+i+1)), Section: "others",
					Content: fmt.Sprintf("Before you sort %s with %d %s, check all %s and write down the %s.", c.thing(), c.IntN(90), c.thing(), c.thing(), c.thing()),
				})
			}
			return []*playbook.Delta{d}, nil
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// live stores the turns of one session after the first ones, as reports of an agent are: each in the stream of
// executions and in the window of the session, of which the server keeps the last 20. Only those are put there.
func (c clerk) live(b *testing.B, conn *bus.Conn, w *window.Store, first, until int) {
	b.Helper()
	for turn := first + 1; turn <= until; turn++ {
		e := c.execution(turn)
		r, err := conn.Publish(b.Context(), e, bus.Marks{})
		if err != nil {
			b.Fatal(err)
		}
		if turn > until-bus.WindowHistory {
			if err := w.Add(b.Context(), "b", "s", events.NewInteraction(r.Handle, e)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkContext is a whole context over an embedded server: the session's window, marks and reflections read, the
// bullets of a book of 10,000 chosen, older turns recalled, all of it put together. By the turns that the session had
// before, without recall and with it; recall compares the query with every one of them.
func BenchmarkContext(b *testing.B) {
	conn, nc := bustest.Open(b, bus.Policy{})
	c := clerk{rand.New(rand.NewPCG(1, 2))}
	c.write(b, conn, 10_000)
	w := window.New(nc, conn.JetStream())
	stored := 0
	for _, history := range []int{10, 1000, 100_000} {
		c.live(b, conn, w, stored, history)
		stored = history
		for _, scope := range []generator.Recall{generator.RecallNone, generator.RecallSession} {
			b.Run(fmt.Sprintf("history=%d/recall=%s", history, scope), func(b *testing.B) {
				desk := generator.NewDesk(conn, nil, generator.Config{Recall: scope, RecallMemory: 4 << 30})
				defer desk.Close()
				desk.Loaded(b.Context(), 10*time.Minute)
				r := &events.ContextRequest{Book: "b", Session: "s", Steps: c.steps(10), DryRun: true}
				var took []time.Duration
				tokens := 0
				b.ReportAllocs()
				for b.Loop() {
					r.Query = fmt.Sprintf("Which %s failed, and what about the %s of last week?", c.thing(), c.thing())
					start := time.Now()
					reply, err := desk.Context(b.Context(), r)
					took = append(took, time.Since(start))
					if err != nil || len(reply.Manifest.Degraded) > 0 {
						b.Fatal(err, reply)
					}
					tokens = reply.Manifest.Tokens
				}
				took = took[min(1, len(took)-1):] // the first one opens the book
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(tokens), "tokens")
			})
		}
	}
}

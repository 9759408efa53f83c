// Package sample generates texts, executions and playbooks for benchmarks.
package sample

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"

	book "debrief/playbook"
)

// Generator generates texts of people, agents and tools that work on invoices. The same seed gives the same texts. It must not
// be used concurrently.
type Generator struct{ *rand.Rand }

// New returns a generator.
func New(seed uint64) Generator { return Generator{rand.New(rand.NewPCG(seed, 1))} }

var (
	things = strings.Fields(`invoices shelves couriers currencies rounding discounts refunds deadlines passwords backups orders
		taxes parsers imports servers tables columns exports customers returns contracts ledgers balances stamps parcels warehouses
		tests branches releases tokens pages replies accounts limits queues dates totals sheets prices weights`)
	doings     = strings.Fields("compare collect sort recount reject split rename round merge repeat archive translate")
	proseWords = strings.Fields(`the invoice parser reads a file of amounts and writes them to billing.invoices when the import of
		customer orders is done and every total was checked against src/load.py by the server before it ran again`)
)

func (s Generator) thing() string { return things[s.IntN(len(things))] }
func (s Generator) doing() string { return doings[s.IntN(len(doings))] }

// Advice returns the text of a bullet.
func (s Generator) Advice() string {
	return fmt.Sprintf("Before you %s %s with %d %s, %s all %s and write down the %s.",
		s.doing(), s.thing(), 2+s.IntN(90), s.thing(), s.doing(), s.thing(), s.thing())
}

// Question returns a question.
func (s Generator) Question() string {
	return fmt.Sprintf("Which %s failed in run %d, and what shall I %s first?", s.thing(), s.IntN(1000), s.doing())
}

// Prose returns a text of size bytes.
func (s Generator) Prose(size int) string {
	var out strings.Builder
	for out.Len() < size {
		switch s.IntN(30) {
		case 0:
			fmt.Fprintf(&out, "%d.%02d CHF. ", s.IntN(1000), s.IntN(100))
		case 1:
			out.WriteString("It failed with ValueError.\n")
		case 2:
			fmt.Fprintf(&out, "Use /srv/run_%d/out.csv for the %s.\n", s.IntN(1000), s.thing())
		default:
			out.WriteString(proseWords[s.IntN(len(proseWords))] + " ")
		}
	}
	return out.String()[:size]
}

func (s Generator) step() events.Step {
	return events.Step{Speaker: chat.Assistant, Text: s.Prose(100), Calls: []events.ToolCall{{
		Tool: "read_file", Arguments: fmt.Sprintf(`{"path": "src/load_%d.py"}`, s.IntN(50)), Output: s.Prose(450),
		Outcome: []events.Label{events.Success, events.Success, events.Failure}[s.IntN(3)],
	}}}
}

// Steps returns n steps with one tool call each.
func (s Generator) Steps(n int) (steps []events.Step) {
	for range n {
		steps = append(steps, s.step())
	}
	return steps
}

// Execution returns an execution of the usual size, 2 KB: a question, two calls of tools, an answer.
func (s Generator) Execution(b book.Book, turn int, session string) *events.Execution {
	e := &events.Execution{
		RunID: fmt.Sprintf("bench-%d", turn), Session: session, Turn: turn, Started: Day.Add(time.Duration(turn) * time.Minute),
		Question: s.Question() + " " + s.Prose(200), Steps: s.Steps(2), Answer: s.Prose(500), Outcome: events.Outcome{Label: events.Success, Score: 1},
	}
	e.Book = b
	e.ID = events.ExecutionID(b, "", e.RunID, 0)
	return e
}

// Interaction returns an execution as the turn of a session.
func (s Generator) Interaction(b book.Book, turn int) *events.Interaction {
	e := s.Execution(b, turn, "sample")
	return events.NewInteraction(events.NewHandle(uint64(turn), e.ID), e)
}

// Day is the time of the first execution.
var Day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Playbook returns a playbook of n bullets about forty things: a question about one of them finds a tenth of the book.
func (s Generator) Playbook(n int) *book.Playbook {
	return book.Restore(uint64(n), uint64(n), func(yield func(*book.Bullet) bool) {
		for i := range n {
			at := Day.Add(-time.Duration(i) * time.Hour)
			b := &book.Bullet{
				ID: book.MintID("strategies", uint64(i+1)), Section: "about_" + things[i%12], Content: s.Advice(),
				Helpful: s.IntN(13), Harmful: s.IntN(4), CreatedAt: at, UpdatedAt: at,
			}
			if !yield(b) {
				return
			}
		}
	})
}

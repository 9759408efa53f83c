package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"

	book "debrief/playbook"
)

// sampleDesk generates texts of people, agents and tools of an invoice desk. The same seed gives the same texts.
type sampleDesk struct{ *rand.Rand }

func newSampleDesk(seed uint64) sampleDesk { return sampleDesk{rand.New(rand.NewPCG(seed, 1))} }

var (
	sampleThings = strings.Fields(`invoices shelves couriers currencies rounding discounts refunds deadlines passwords backups orders
		taxes parsers imports servers tables columns exports customers returns contracts ledgers balances stamps parcels warehouses
		tests branches releases tokens pages replies accounts limits queues dates totals sheets prices weights`)
	sampleDoings = strings.Fields("compare collect sort recount reject split rename round merge repeat archive translate")
	sampleProse  = strings.Fields(`the invoice parser reads a file of amounts and writes them to billing.invoices when the import of
		customer orders is done and every total was checked against src/load.py by the server before it ran again`)
)

func (s sampleDesk) thing() string { return sampleThings[s.IntN(len(sampleThings))] }
func (s sampleDesk) doing() string { return sampleDoings[s.IntN(len(sampleDoings))] }

func (s sampleDesk) advice() string {
	return fmt.Sprintf("Before you %s %s with %d %s, %s all %s and write down the %s.",
		s.doing(), s.thing(), 2+s.IntN(90), s.thing(), s.doing(), s.thing(), s.thing())
}

func (s sampleDesk) question() string {
	return fmt.Sprintf("Which %s failed in run %d, and what shall I %s first?", s.thing(), s.IntN(1000), s.doing())
}

func (s sampleDesk) prose(size int) string {
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
			out.WriteString(sampleProse[s.IntN(len(sampleProse))] + " ")
		}
	}
	return out.String()[:size]
}

func (s sampleDesk) step() events.Step {
	return events.Step{Speaker: chat.Assistant, Text: s.prose(100), Calls: []events.ToolCall{{
		Tool: "read_file", Arguments: fmt.Sprintf(`{"path": "src/load_%d.py"}`, s.IntN(50)), Output: s.prose(450),
		Outcome: []events.Label{events.Success, events.Success, events.Failure}[s.IntN(3)],
	}}}
}

func (s sampleDesk) steps(n int) (steps []events.Step) {
	for range n {
		steps = append(steps, s.step())
	}
	return steps
}

// execution is one of the usual size, 2 KB: a question, two calls of tools, an answer.
func (s sampleDesk) execution(turn int, session string) *events.Execution {
	e := &events.Execution{
		TaskID: fmt.Sprintf("bench-%d", turn), Session: session, Turn: turn, Started: sampleDay.Add(time.Duration(turn) * time.Minute),
		Question: s.question() + " " + s.prose(200), Steps: s.steps(2), Answer: s.prose(500), Outcome: events.Outcome{Label: events.Success, Score: 1},
	}
	e.Book = benchBook
	e.ID = events.ExecutionID(benchBook, e.TaskID, 0)
	return e
}

func (s sampleDesk) interaction(turn int) *events.Interaction {
	e := s.execution(turn, "sample")
	return events.NewInteraction(events.NewHandle(uint64(turn), e.ID), e)
}

var sampleDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// playbook is a book of n bullets about forty things: a question about one of them finds a tenth of the book.
func (s sampleDesk) playbook(n int) *book.Playbook {
	return book.Restore(uint64(n), uint64(n), func(yield func(*book.Bullet) bool) {
		for i := range n {
			at := sampleDay.Add(-time.Duration(i) * time.Hour)
			b := &book.Bullet{
				ID: book.MintID("strategies", uint64(i+1)), Section: "about_" + sampleThings[i%12], Content: s.advice(),
				Helpful: s.IntN(13), Harmful: s.IntN(4), CreatedAt: at, UpdatedAt: at,
			}
			if !yield(b) {
				return
			}
		}
	})
}

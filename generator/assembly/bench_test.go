package assembly

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/selection"
	"debrief/playbook"
	"debrief/playbook/recall"
)

// office writes what people and agents of an invoice desk say.
type office struct{ *rand.Rand }

func (o office) prose(size int) string {
	words := strings.Fields(`the invoice parser reads a file of amounts and writes them to billing.invoices when the import of customer
		orders is done and every total was checked against src/load.py by the server before it ran again with other settings then`)
	var b strings.Builder
	for b.Len() < size {
		switch o.IntN(30) {
		case 0:
			fmt.Fprintf(&b, "%d.%02d CHF. ", o.IntN(1000), o.IntN(100))
		case 1:
			b.WriteString("It failed with ValueError.\n")
		case 2:
			fmt.Fprintf(&b, "Use /srv/run_%d/out.csv instead.\n", o.IntN(1000))
		default:
			b.WriteString(words[o.IntN(len(words))] + " ")
		}
	}
	return b.String()[:size]
}

func (o office) step() events.Step {
	return events.Step{Speaker: chat.Assistant, Text: o.prose(100), Calls: []events.ToolCall{{
		Tool: []string{"read_file", "search", "run_tests", "order_lookup"}[o.IntN(4)], Arguments: fmt.Sprintf(`{"path": "src/load_%d.py"}`, o.IntN(50)),
		Output: o.prose(450), Outcome: []events.Label{events.Success, events.Success, events.Failure}[o.IntN(3)],
	}}}
}

// interaction is one of the usual size, 2 KB: a question, two calls of tools, an answer.
func (o office) interaction(turn int) *events.Interaction {
	id := events.Hash(fmt.Sprint("office ", turn))
	return &events.Interaction{
		Execution: events.NewHandle(uint64(turn), id), ID: id, Turn: turn, At: noon.Add(time.Duration(turn-200) * time.Minute), Label: events.Success,
		Question: o.prose(200), Steps: []events.Step{o.step(), o.step()}, Answer: o.prose(500),
	}
}

// rules is a book of n bullets about forty things: a question about one of them finds a tenth of the book.
func (o office) rules(n int) *playbook.Playbook {
	things := strings.Fields(`invoices shelves couriers currencies rounding discounts refunds deadlines passwords backups orders taxes
		parsers imports servers tables columns exports customers returns contracts ledgers balances stamps parcels warehouses tests
		branches releases tokens pages replies accounts limits queues dates totals sheets prices weights`)
	doings := strings.Fields("compare collect sort recount reject split rename round merge repeat archive translate")
	thing := func() string { return things[o.IntN(len(things))] }
	doing := func() string { return doings[o.IntN(len(doings))] }
	return playbook.Restore(uint64(n), uint64(n), func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			at := noon.Add(-time.Duration(i) * time.Hour)
			if !yield(&playbook.Bullet{
				ID: playbook.MintID("strategies", uint64(i+1)), Section: "about_" + things[i%12], Helpful: o.IntN(13), Harmful: o.IntN(4),
				Content:   fmt.Sprintf("Before you %s %s with %d %s, %s all %s and write down the %s.", doing(), thing(), 2+o.IntN(90), thing(), doing(), thing(), thing()),
				CreatedAt: at, UpdatedAt: at,
			}) {
				return
			}
		}
	})
}

// busy is what comes together for a query in the middle of a long session: 20 turns of 2 KB, 10 that are recalled, 3
// reflections, 10 calls of tools since the query, and a book.
func busy(o office, bullets int) (in Input, words *recall.Words) {
	p := o.rules(bullets)
	words = new(recall.Words)
	for _, b := range p.Sorted() {
		words.Put(string(b.ID), b.Section+" "+b.Content)
	}
	query := "Which discounts failed in run 40, and what shall I check first?"
	like := recall.Hashed(query, nil)
	in = Input{
		Now: noon, System: strings.Repeat("You work at the invoice desk and answer in one line. ", 20), Query: query, Book: shelved(p),
		Similar: func(text string) (sum float64) {
			var buf [recall.HashedDimension]float32
			for i, x := range recall.Hashed(text, buf[:0]) {
				sum += float64(x) * float64(like[i])
			}
			return max(sum, 0)
		},
	}
	for i := range 20 {
		in.Window = append(in.Window, o.interaction(100+i))
	}
	for i := range 10 {
		in.Recalled = append(in.Recalled, o.interaction(i+1))
		in.Running = append(in.Running, o.step())
	}
	for i := range 3 {
		in.Notes = append(in.Notes, &events.Note{
			Reflection: events.NewHandle(uint64(i), events.Hash(fmt.Sprint("note ", i))), Label: events.Failure,
			Error: o.prose(200), Approach: o.prose(200), Insight: o.prose(200),
		})
	}
	return in, words
}

func relevance(words *recall.Words, query string) iter.Seq2[playbook.BulletID, float64] {
	return func(yield func(playbook.BulletID, float64) bool) {
		for m := range words.Each(query) {
			if !yield(playbook.BulletID(m.Key), m.Score) {
				return
			}
		}
	}
}

// trials are those of one context.
func trials(words *recall.Words, query string) *selection.Trials {
	c := words.Coverage(query)
	return &selection.Trials{Book: "b", Task: "t", Bears: func(b *playbook.Bullet) float64 { share, _ := c.Of(b.Content); return share }}
}

// BenchmarkAssemble is a context put together, with the bullets held against the query by their words: an ordinary one, of
// a session's last five turns, three that are recalled and three reflections, and one in the middle of much work (busy).
func BenchmarkAssemble(b *testing.B) {
	for _, bullets := range []int{100, 1000, 10_000} {
		much, words := busy(office{rand.New(rand.NewPCG(1, 2))}, bullets)
		much.Relevance = relevance(words, much.Query)
		ordinary := much
		ordinary.Window, ordinary.Recalled, ordinary.Running = much.Window[15:], much.Recalled[:3], nil
		relevant := 0
		for range much.Relevance {
			relevant++
		}
		for _, of := range []struct {
			name string
			in   Input
			l    Limits
		}{
			{"ordinary", ordinary, Limits{}},
			{"busy", much, Limits{}},
			{"busy/window=none", much, Limits{Window: AllTurns}},
			{"busy/limit=4000", much, Limits{Total: 4000}},
		} {
			b.Run(fmt.Sprintf("bullets=%d/%s", bullets, of.name), func(b *testing.B) {
				var took []time.Duration
				var c *Context
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					var err error
					of.in.Trials = trials(words, of.in.Query)
					if c, err = Assemble(of.in, of.l); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(c.Manifest.Tokens), "tokens")
				b.ReportMetric(float64(len(c.Manifest.Parts)), "parts")
				b.ReportMetric(float64(relevant), "relevant")
			})
		}
	}
}

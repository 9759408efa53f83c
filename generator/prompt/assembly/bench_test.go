package assembly

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/recall"
)

// textGenerator writes texts of users and agents of an invoice office.
type textGenerator struct{ *rand.Rand }

func (g textGenerator) prose(size int) string {
	words := strings.Fields(`the invoice parser reads a file of amounts and writes them to billing.invoices when the import of customer
		orders is done and every total was checked against src/load.py by the server before it ran again with other settings then`)
	var b strings.Builder
	for b.Len() < size {
		switch g.IntN(30) {
		case 0:
			fmt.Fprintf(&b, "%d.%02d CHF. ", g.IntN(1000), g.IntN(100))
		case 1:
			b.WriteString("It failed with ValueError.\n")
		case 2:
			fmt.Fprintf(&b, "Use /srv/run_%d/out.csv instead.\n", g.IntN(1000))
		default:
			b.WriteString(words[g.IntN(len(words))] + " ")
		}
	}
	return b.String()[:size]
}

func (g textGenerator) step() events.Step {
	return events.Step{Speaker: chat.Assistant, Text: g.prose(100), Calls: []events.ToolCall{{
		Tool: []string{"read_file", "search", "run_tests", "order_lookup"}[g.IntN(4)], Arguments: fmt.Sprintf(`{"path": "src/load_%d.py"}`, g.IntN(50)),
		Output: g.prose(450), Outcome: []events.Label{events.Success, events.Success, events.Failure}[g.IntN(3)],
	}}}
}

// interaction returns an interaction of typical size, 2 KB: a question, two tool calls, an answer.
func (g textGenerator) interaction(turn int) *events.Interaction {
	id := events.Hash(fmt.Sprint("office ", turn))
	return &events.Interaction{
		Execution: events.NewHandle(uint64(turn), id), ID: id, Turn: turn, At: noon.Add(time.Duration(turn-200) * time.Minute), Label: events.Success,
		Question: g.prose(200), Steps: []events.Step{g.step(), g.step()}, Answer: g.prose(500),
	}
}

// playbook returns n bullets about forty topics. A question about one topic matches a tenth of them.
func (g textGenerator) playbook(n int) *playbook.Playbook {
	things := strings.Fields(`invoices shelves couriers currencies rounding discounts refunds deadlines passwords backups orders taxes
		parsers imports servers tables columns exports customers returns contracts ledgers balances stamps parcels warehouses tests
		branches releases tokens pages replies accounts limits queues dates totals sheets prices weights`)
	doings := strings.Fields("compare collect sort recount reject split rename round merge repeat archive translate")
	thing := func() string { return things[g.IntN(len(things))] }
	doing := func() string { return doings[g.IntN(len(doings))] }
	return playbook.Restore(uint64(n), uint64(n), func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			at := noon.Add(-time.Duration(i) * time.Hour)
			if !yield(&playbook.Bullet{
				ID: playbook.MintID("strategies", uint64(i+1)), Section: "about_" + things[i%12], Helpful: g.IntN(13), Harmful: g.IntN(4),
				Content:   fmt.Sprintf("Before you %s %s with %d %s, %s all %s and write down the %s.", doing(), thing(), 2+g.IntN(90), thing(), doing(), thing(), thing()),
				CreatedAt: at, UpdatedAt: at,
			}) {
				return
			}
		}
	})
}

// busyInput returns the input of a query in a long session: 20 turns of 2 KB, 10 recalled executions, 3 reflections,
// 10 tool calls since the query, and a playbook.
func busyInput(o textGenerator, bullets int) (in Input, words *recall.WordIndex) {
	p := o.playbook(bullets)
	words = new(recall.WordIndex)
	for _, b := range p.Sorted() {
		words.Put(string(b.ID), b.Section+" "+b.Content)
	}
	query := "Which discounts failed in run 40, and what shall I check first?"
	like := recall.HashedVector(query, nil)
	in = Input{
		Now: noon, System: strings.Repeat("You work at the invoice desk and answer in one line. ", 20), Query: query, Index: newIndex(p),
		Similar: func(text string) (sum float64) {
			var buf [recall.HashedDimension]float32
			for i, x := range recall.HashedVector(text, buf[:0]) {
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

// rankings ranks bullets by their words.
func rankings(words *recall.WordIndex, query string) func() []selection.Ranking {
	return func() []selection.Ranking {
		list := selection.Ranking{}
		for _, m := range words.Top(query, 200) {
			list = append(list, selection.Ranked{Bullet: playbook.BulletID(m.Key), Score: m.Score})
		}
		return []selection.Ranking{list}
	}
}

// experiment returns a draw in which the three best bullets by words apply, as for new bullets.
func experiment(words *recall.WordIndex, query string) *selection.Draw {
	return &selection.Draw{Task: "t", Applicable: func() (ids []playbook.BulletID) {
		for _, m := range words.Top(query, 3) {
			ids = append(ids, playbook.BulletID(m.Key))
		}
		return ids
	}}
}

// BenchmarkAssemble assembles contexts and rates bullets by their words. The ordinary context has five turns, three
// recalled executions and three reflections. The other one is busyInput.
func BenchmarkAssemble(b *testing.B) {
	for _, bullets := range []int{100, 1000, 10_000} {
		much, words := busyInput(textGenerator{rand.New(rand.NewPCG(1, 2))}, bullets)
		much.Rankings = rankings(words, much.Query)
		ordinary := much
		ordinary.Window, ordinary.Recalled, ordinary.Running = much.Window[15:], much.Recalled[:3], nil
		for _, of := range []struct {
			name string
			in   Input
			l    Limits
		}{
			{"ordinary", ordinary, Limits{}},
			{"advice", Input{Now: much.Now, System: much.System, Query: much.Query, Advice: true, Index: much.Index, Rankings: much.Rankings, Notes: much.Notes}, Limits{}},
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
					of.in.Draw = experiment(words, of.in.Query)
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
			})
		}
	}
}

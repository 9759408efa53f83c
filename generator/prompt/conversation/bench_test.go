package conversation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// prose returns generated text of the given size in bytes that resembles a conversation with tools.
func prose(r *rand.Rand, size int) string {
	words := strings.Fields(`the invoice parser reads a file of amounts and writes them to billing.invoices when the import of customer
		orders is done and every total was checked against src/load.py by the server before it ran again with other settings then`)
	var b strings.Builder
	for b.Len() < size {
		switch r.IntN(30) {
		case 0:
			fmt.Fprintf(&b, "%d.%02d CHF. ", r.IntN(1000), r.IntN(100))
		case 1:
			b.WriteString("It failed with ValueError.\n")
		case 2:
			fmt.Fprintf(&b, "Use /srv/run_%d/out.csv instead.\n", r.IntN(1000))
		default:
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
	}
	return b.String()[:size]
}

// measure reports the median and the 99th percentile of the duration of a call.
func measure(b *testing.B, call func()) {
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		call()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkFit fits questions, steps and answers of 0.2 to 2 KB into a window of 8,000 tokens.
func BenchmarkFit(b *testing.B) {
	for _, n := range []int{100, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			texts := make([]string, 1000)
			for i := range texts {
				texts[i] = prose(r, 200+r.IntN(1800))
			}
			items := make([]Item, n)
			for i := range items {
				text := texts[i%len(texts)]
				items[i] = Item{
					At: now.Add(time.Duration(i-n) * time.Minute), Source: Source(i % 5), Text: text, Tokens: len(text) / 3,
					Semantic: r.Float64(), Pinned: i%500 == 7, Starred: i%700 == 9, Required: i >= n-3, Parent: i/3*3 - 3,
				}
				if i%3 == 0 {
					items[i].Parent = -1
				}
			}
			measure(b, func() { Fit(items, now, usual) })
		})
	}
}

func BenchmarkCompress100Items2KB(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = prose(r, 2<<10)
	}
	measure(b, func() { Summarize(texts, 500, "which import of invoices failed?") })
}

func BenchmarkReferred100Candidates2KB(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = prose(r, 2<<10)
	}
	b.Run("none", func(b *testing.B) {
		measure(b, func() { referred("run the import of all the invoices before you deploy it", texts) })
	})
	b.Run("one", func(b *testing.B) {
		measure(b, func() { referred("the same command as before, for the orders in billing", texts) })
	})
}

func BenchmarkBudgetAndState(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 10)
	for i := range texts {
		texts[i] = prose(r, 2<<10)
	}
	measure(b, func() { Budget(BudgetInput{Task: DetectTask(texts), Recent: texts}) })
}

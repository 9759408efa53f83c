package selection_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// library returns a playbook of n bullets that differ in all inputs of a selection.
func library(n int) *playbook.Playbook {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	words := strings.Fields(`when the an invoice customer discount tax before after fee order account list read write
		check always never retry page token limit error call answer date currency amount round total search file test
		build install branch message field table query empty missing twice first last each only unless`)
	return playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			said := make([]string, 12+r.IntN(30))
			for j := range said {
				said[j] = words[r.IntN(len(words))]
			}
			b := &playbook.Bullet{
				ID: playbook.MintID("others", uint64(i+1)), Section: fmt.Sprintf("section_%d", r.IntN(12)), Content: strings.Join(said, " "),
				Helpful: r.IntN(40), Harmful: r.IntN(10), CreatedAt: noon.AddDate(0, 0, -r.IntN(300)),
			}
			if r.IntN(3) > 0 {
				b.LastUsed = b.CreatedAt.Add(time.Duration(r.Int64N(int64(noon.Sub(b.CreatedAt)) + 1)))
			}
			if !yield(b) {
				return
			}
		}
	})
}

// hits returns a ranking of about n bullets.
func hits(p *playbook.Playbook, n int) func() []selection.Ranking {
	r := rand.New(rand.NewPCG(2, 2))
	var list selection.Ranking
	for _, b := range p.Sorted() {
		if r.IntN(p.Len()) < n {
			list = append(list, selection.Ranked{Bullet: b.ID, Score: r.Float64()})
		}
	}
	slices.SortFunc(list, func(a, b selection.Ranked) int { return cmp.Compare(b.Score, a.Score) })
	return rank(list)
}

// tied returns a playbook of n bullets of one section with equal scores.
func tied(n int, content func(i int) string) *playbook.Playbook {
	return playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			if !yield(&playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Section: "others", Content: content(i), CreatedAt: noon}) {
				return
			}
		}
	})
}

// BenchmarkSelect selects for one prompt. The last three playbooks are the most expensive.
func BenchmarkSelect(b *testing.B) {
	usual := selection.Options{Tokens: 4000}
	with := func(change func(o *selection.Options)) selection.Options {
		o := usual
		change(&o)
		return o
	}
	type book struct {
		name string
		p    *playbook.Playbook
		o    selection.Options
	}
	var books []book
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		p := library(n)
		books = append(books,
			book{fmt.Sprintf("%d", n), p, usual},
			book{fmt.Sprintf("%d/200_relevant", n), p, with(func(o *selection.Options) { o.Rankings = hits(p, 200) })})
	}
	p := library(10_000)
	books = append(books,
		book{"10000/all_relevant", p, with(func(o *selection.Options) { o.Rankings = hits(p, p.Len()) })},
		book{"10000/weighted", p, with(func(o *selection.Options) { o.Weights, o.Now, o.MaxBullets = selection.SWECLI, noon, 30 })},
		book{"10000/explained", p, with(func(o *selection.Options) { o.Explain = true })},
		book{"10000/1000_tokens", p, with(func(o *selection.Options) { o.Tokens = 1000 })},
		book{"10000/50000_tokens", p, with(func(o *selection.Options) { o.Tokens = 50_000 })},
		book{"10000/tied", tied(10_000, func(i int) string { return fmt.Sprintf("bullet %d says something else", i) }), usual},
		book{"10000/the_same_words", tied(10_000, func(int) string { return "they all say one thing again and again" }), usual})
	for _, book := range books {
		b.Run(book.name, func(b *testing.B) {
			x := selection.NewIndex(false)
			x.Update(book.p)
			measure(b, func() { x.Select(book.o) })
		})
	}
}

// BenchmarkUpdate updates an index to the next version, in which one bullet has one more vote.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := library(n)
			x := selection.NewIndex(false)
			x.Update(p)
			d := &playbook.Delta{
				Covers: make([]playbook.Cover, 1), Time: noon,
				Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: playbook.MintID("others", 7), Helpful: 1, Support: []int{0}}},
			}
			measure(b, func() {
				d.Version = p.Version() + 1
				if _, err := p.Apply(d); err != nil {
					b.Fatal(err)
				}
				if changed, _ := x.Update(p); len(changed) != 1 {
					b.Fatalf("%d changed", len(changed))
				}
			})
		})
	}
}

func BenchmarkNewIndex10000(b *testing.B) {
	p := library(10_000)
	measure(b, func() { selection.NewIndex(false).Update(p) })
}

// measure runs do and reports the quantiles of its durations.
func measure(b *testing.B, do func()) {
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		do()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
}

var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

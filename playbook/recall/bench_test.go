package recall_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/playbook/recall"
)

// measure runs f and reports the distribution of its durations.
func measure(b *testing.B, f func(i int)) {
	b.Helper()
	var took []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		f(i)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// archive generates texts of 40 words from a vocabulary of 50,000 with Zipf's frequencies, and questions of 8 words.
type archive struct{ *rand.Rand }

func (a archive) text(words int) string {
	var text strings.Builder
	for range words {
		fmt.Fprintf(&text, "w%d ", int(math.Pow(50_000, a.Float64())))
	}
	return text.String()
}

func (a archive) item(i, dimension int) recall.Item {
	return recall.Item{
		Key: fmt.Sprintf("%d-%08x", i, a.Uint32()), Text: a.text(40), Groups: []string{"book", fmt.Sprintf("session-%d", i/50)},
		Vector: a.vector(dimension), Model: "m",
	}
}

// vector returns a pseudo-random vector that is cheap to compute.
func (a archive) vector(dimension int) []float32 {
	v := make([]float32, dimension)
	for i := range v {
		v[i] = float32(int32(a.Uint32()))
	}
	return v
}

func BenchmarkSearch(b *testing.B) {
	const items = 100_000
	for _, dimension := range []int{384, 1536} {
		a := archive{rand.New(rand.NewPCG(1, 2))}
		x := recall.New(0)
		for i := range items {
			put(b, x, a.item(i, dimension))
		}
		vectors := make([][]float32, 100)
		texts := make([]string, 100)
		for i := range vectors {
			vectors[i], texts[i] = a.vector(dimension), a.text(8)
		}
		for _, bm := range []struct {
			name  string
			query func(i int) recall.Query
		}{
			{"Both", func(i int) recall.Query { return recall.Query{Text: texts[i], Vector: vectors[i], Model: "m"} }},
			{"Words", func(i int) recall.Query { return recall.Query{Text: texts[i]} }},
			{"Session", func(i int) recall.Query {
				return recall.Query{Text: texts[i], Vector: vectors[i], Model: "m", Group: fmt.Sprint("session-", i)}
			}},
			{"Book", func(i int) recall.Query {
				return recall.Query{Text: texts[i], Vector: vectors[i], Model: "m", Group: "book"}
			}},
		} {
			b.Run(fmt.Sprintf("%dx%d/%s", items, dimension, bm.name), func(b *testing.B) {
				measure(b, func(i int) {
					if _, err := x.Search(bm.query(i % 100)); err != nil {
						b.Fatal(err)
					}
				})
				b.ReportMetric(float64(x.Stats().Bytes)/items, "bytes/item")
			})
		}
	}
}

// BenchmarkPut puts items into a full index, so that each put evicts an item.
func BenchmarkPut(b *testing.B) {
	a := archive{rand.New(rand.NewPCG(1, 3))}
	var items []recall.Item
	for i := range 100_000 {
		items = append(items, a.item(i, 0))
	}
	x := recall.New(50 << 20)
	for i := 0; x.Stats().Evicted == 0; i++ {
		put(b, x, items[i])
	}
	vector := a.vector(384)
	measure(b, func(i int) {
		item := items[i%len(items)]
		item.Vector = vector
		put(b, x, item)
	})
}

func BenchmarkWords(b *testing.B) {
	for _, texts := range []int{1000, 100_000} {
		a := archive{rand.New(rand.NewPCG(1, 4))}
		var w recall.WordIndex
		for i := range texts {
			w.Put(fmt.Sprintf("%06d", i), a.text(40))
		}
		queries := make([]string, 100)
		for i := range queries {
			queries[i] = a.text(8)
		}
		b.Run(fmt.Sprintf("Top/%d", texts), func(b *testing.B) {
			measure(b, func(i int) { w.Top(queries[i%100], 10) })
		})
	}
}

func BenchmarkHashed(b *testing.B) {
	o := office{rand.New(rand.NewPCG(1, 5))}
	notes := make([]string, 1000)
	bytes := 0
	for i := range notes {
		k := kinds[i%len(kinds)]
		notes[i] = o.note(k, k.about(o))
		bytes += len(notes[i])
	}
	dst := make([]float32, recall.HashedDimension)
	measure(b, func(i int) { recall.HashedVector(notes[i%len(notes)], dst) })
	b.ReportMetric(float64(bytes)/float64(len(notes)), "bytes/text")
}

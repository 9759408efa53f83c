package contrast

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// large returns 100,000 runs with 60 candidates each, of 20,000 tasks.
func large(pool int) *Data {
	r := rand.New(rand.NewPCG(1, 1))
	d := New(Config{Shuffles: -1})
	could, did := make([]ID, 60), make([]ID, 0, 60)
	for i := range 100_000 {
		did = did[:0]
		first := r.IntN(pool)
		for c := range could {
			could[c] = ID((first + c) % pool)
			if r.IntN(2) == 0 {
				did = append(did, could[c])
			}
		}
		d.Add(Run{Task: fmt.Sprint(i / 5), Success: r.IntN(2) == 0, Could: could, Did: did})
	}
	return d
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkResult reports the memory of the data, and a bound of the memory while it is analysed: all that Result
// allocates, without collection.
func BenchmarkResult(b *testing.B) {
	for _, pool := range []int{60, 2_000, 20_000} {
		b.Run(fmt.Sprint(pool), func(b *testing.B) {
			before := heap()
			d := large(pool)
			data := heap() - before
			var m, n runtime.MemStats
			for b.Loop() {
				runtime.ReadMemStats(&m)
				d.Result()
				runtime.ReadMemStats(&n)
			}
			b.ReportMetric(data/1e6, "MB-data")
			b.ReportMetric((data+float64(n.TotalAlloc-m.TotalAlloc))/1e6, "MB-bound")
		})
	}
}

package replay

import (
	"fmt"
	"testing"
)

// BenchmarkSamples measures the loop of one sample at a time, and of batches, with a model without latency.
func BenchmarkSamples(b *testing.B) {
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			h := open(b, 16, nil)
			s := sets(200, 10)
			s.Validation, s.Test = nil, nil
			n := 0
			for b.Loop() {
				n++
				h.run(Config{Batch: batch}, s, Options{Name: fmt.Sprint("r", n)})
			}
			b.ReportMetric(float64(n*200)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

package exposition

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// maxLabels is the highest number of labels of a counter or a histogram.
const maxLabels = 3

// labelValues is a key of a vector. Unused elements are "".
type labelValues [maxLabels]string

// vector contains the series of one metric.
type vector[M any] struct {
	*Desc
	create func() M

	mu     sync.RWMutex
	series map[labelValues]M
}

func newVector[M any](d *Desc, create func() M) vector[M] {
	if len(d.labels) > maxLabels {
		panic(d.name + ": too many labels")
	}
	return vector[M]{Desc: d, create: create, series: map[labelValues]M{}}
}

// With returns the series with these values of the labels. It creates the series if necessary.
func (v *vector[M]) With(values ...string) M {
	if len(values) != len(v.labels) {
		panic(v.name + ": wrong number of labels")
	}
	var key labelValues
	copy(key[:], values)
	v.mu.RLock()
	m, found := v.series[key]
	v.mu.RUnlock()
	if found {
		return m
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if m, found = v.series[key]; !found {
		m = v.create()
		v.series[key] = m
	}
	return m
}

// each calls visit for each series, sorted by the values of the labels.
func (v *vector[M]) each(visit func(m M, labels []string)) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	keys := make([]labelValues, 0, len(v.series))
	for key := range v.series {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b labelValues) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		visit(v.series[key], key[:len(v.labels)])
	}
}

// Counters is a metric of kind counter. Each combination of label values is one series.
type Counters struct{ vector[*Counter] }

// NewCounters returns a counter. It has no series before With.
func NewCounters(d *Desc) *Counters {
	return &Counters{newVector(d, func() *Counter { return new(Counter) })}
}

// Collect implements Collector.
func (c *Counters) Collect(to *Scrape) {
	c.each(func(n *Counter, labels []string) { to.Counter(c.Desc, float64(n.n.Load()), labels...) })
}

// Counter counts. It is safe for concurrent use.
type Counter struct{ n atomic.Uint64 }

// Inc adds 1.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Histograms is a metric of kind histogram. Each combination of label values is one series.
type Histograms struct {
	vector[*Histogram]
	limits []float64
}

// NewHistograms returns a histogram. The upper limits of the buckets ascend; the last bucket is unlimited. It has no series
// before With.
func NewHistograms(d *Desc, limits []float64) *Histograms {
	return &Histograms{newVector(d, func() *Histogram {
		return &Histogram{limits: limits, buckets: make([]atomic.Uint64, len(limits)+1)}
	}), limits}
}

// Collect implements Collector. The count of a series is the sum of its buckets.
func (h *Histograms) Collect(to *Scrape) {
	f := to.family(h.Desc, "histogram")
	h.each(func(m *Histogram, labels []string) {
		count := uint64(0)
		for i := range m.buckets {
			limit := math.Inf(1)
			if i < len(h.limits) {
				limit = h.limits[i]
			}
			count += m.buckets[i].Load()
			f.add(h.Desc, "_bucket", labels, `le="`+number(limit)+`"`, float64(count))
		}
		f.add(h.Desc, "_sum", labels, "", math.Float64frombits(m.sum.Load()))
		f.add(h.Desc, "_count", labels, "", float64(count))
	})
}

// Histogram counts observations in buckets. It is safe for concurrent use. A scrape may see the bucket of an observation
// before its sum.
type Histogram struct {
	limits  []float64
	buckets []atomic.Uint64
	sum     atomic.Uint64 // the bits of a float64
}

// Observe adds an observation. A value equal to a limit is in the bucket of that limit.
func (h *Histogram) Observe(v float64) {
	i, _ := slices.BinarySearch(h.limits, v)
	h.buckets[i].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

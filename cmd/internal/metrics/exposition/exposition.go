// Package exposition keeps the metrics of a process and serves them in the text format of Prometheus, version 0.0.4. It knows
// counters, gauges, histograms with fixed buckets, and summaries that the caller computed. It has no other formats, no push
// and no default registry.
//
// It exists because client_golang links protobuf, which adds 2.5 MB to each worker. Counting is one atomic addition and does
// not allocate, if the caller binds the labels before. The names of the go_ and process_ metrics are those of client_golang.
package exposition

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Desc describes a metric: its name, its help text and the names of its labels. It is immutable.
type Desc struct {
	name, help string
	labels     []string
}

// NewDesc returns a description. The caller chooses a valid name and valid labels: NewDesc does not check them.
func NewDesc(name, help string, labels ...string) *Desc { return &Desc{name, help, labels} }

// Collector writes its current values. Collect may run several times at once.
type Collector interface{ Collect(to *Scrape) }

// CollectorFunc is a function that is a Collector.
type CollectorFunc func(to *Scrape)

// Collect calls the function.
func (f CollectorFunc) Collect(to *Scrape) { f(to) }

// Registry is a set of collectors. The zero value is empty and ready. It is safe for concurrent use.
type Registry struct {
	mu         sync.Mutex
	collectors []Collector
}

// Register adds collectors. Each series must have one collector, but a metric may have several.
func (r *Registry) Register(c ...Collector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collectors = append(r.collectors, c...)
}

// write collects all values and writes them, sorted by the name of the metric. Collectors run at the same time.
func (r *Registry) write(w io.Writer) error {
	r.mu.Lock()
	collectors := slices.Clone(r.collectors)
	r.mu.Unlock()
	scrapes := make([]Scrape, len(collectors))
	var running sync.WaitGroup
	for i, c := range collectors {
		running.Go(func() { c.Collect(&scrapes[i]) })
	}
	running.Wait()
	all := map[string][]*family{}
	for _, s := range scrapes {
		for name, f := range s.families {
			all[name] = append(all[name], f)
		}
	}
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		first := all[name][0]
		text = fmt.Appendf(text, "# HELP %s %s\n# TYPE %s %s\n", name, helpEscapes.Replace(first.help), name, first.kind)
		for _, f := range all[name] {
			text = append(text, f.lines...)
		}
	}
	_, err := w.Write(text)
	return err
}

// Handler returns an HTTP handler that serves all values. It refuses more than limit requests at a time with the status 503, and
// ends a request with that status after the timeout.
func (r *Registry) Handler(limit int, timeout time.Duration) http.Handler {
	slots := make(chan struct{}, limit)
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, fmt.Sprintf("at most %d requests at a time; try again later", limit), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Vary", "Accept-Encoding")
		if !strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") {
			_ = r.write(w) // the client is gone
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		_ = r.write(packed)
		_ = packed.Close()
	}), timeout, "collecting the metrics took longer than "+timeout.String())
}

// Scrape receives the values of one collector. It is for one goroutine.
type Scrape struct{ families map[string]*family }

// family is the text of one metric.
type family struct {
	help, kind string
	lines      []byte
}

// Gauge writes a value that may fall.
func (s *Scrape) Gauge(d *Desc, v float64, labels ...string) {
	s.family(d, "gauge").add(d, "", labels, "", v)
}

// Counter writes a value that only grows.
func (s *Scrape) Counter(d *Desc, v float64, labels ...string) {
	s.family(d, "counter").add(d, "", labels, "", v)
}

// Quantile is a value of a summary. Q is between 0 and 1.
type Quantile struct{ Q, Value float64 }

// Summary writes the number and the sum of observations, and quantiles.
func (s *Scrape) Summary(d *Desc, count uint64, sum float64, quantiles []Quantile, labels ...string) {
	f := s.family(d, "summary")
	for _, q := range quantiles {
		f.add(d, "", labels, `quantile="`+number(q.Q)+`"`, q.Value)
	}
	f.add(d, "_sum", labels, "", sum)
	f.add(d, "_count", labels, "", float64(count))
}

func (s *Scrape) family(d *Desc, kind string) *family {
	f := s.families[d.name]
	if f == nil {
		f = &family{help: d.help, kind: kind}
		if s.families == nil {
			s.families = map[string]*family{}
		}
		s.families[d.name] = f
	}
	return f
}

// Escapes of the text format.
var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// add appends the line of a series. Extra is an encoded label, or "". It panics if the number of labels is wrong.
func (f *family) add(d *Desc, suffix string, labels []string, extra string, v float64) {
	if len(labels) != len(d.labels) {
		panic(fmt.Sprintf("%s: got %d labels, want %d", d.name, len(labels), len(d.labels)))
	}
	line := bytes.NewBuffer(f.lines)
	line.WriteString(d.name)
	line.WriteString(suffix)
	separator := "{"
	for i, label := range labels {
		line.WriteString(separator)
		line.WriteString(d.labels[i])
		line.WriteString(`="`)
		line.WriteString(labelEscapes.Replace(label))
		line.WriteString(`"`)
		separator = ","
	}
	if extra != "" {
		line.WriteString(separator)
		line.WriteString(extra)
		separator = ","
	}
	if separator == "," {
		line.WriteString("}")
	}
	line.WriteString(" ")
	line.WriteString(number(v))
	line.WriteString("\n")
	f.lines = line.Bytes()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

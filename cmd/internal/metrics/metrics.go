package metrics

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"debrief/events/redact"
)

// Metrics is the registry of one process. What it has a part for is added to it once, before it is asked.
type Metrics struct {
	registry *prometheus.Registry
	models   *models
	took     *prometheus.HistogramVec // requests of outside agents
	answered *prometheus.CounterVec
	behind   func(context.Context) (uint64, error) // nil where nobody follows
	most     int64                                 // bytes of the store where this process knows them; 0 where it does not
}

// New is the registry of a program.
func New(program, version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "debrief_build_info", Help: "What runs here.",
		ConstLabels: prometheus.Labels{"program": program, "version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	m.took = m.histogram("debrief_request_seconds", "Requests of outside agents.", seconds, "door", "verb")
	m.answered = m.counter("debrief_requests_total", "Requests of outside agents, by how they were answered.", "door", "verb", "code")
	m.models = &models{
		took:    m.histogram("debrief_model_seconds", "Calls of a model, waits and retries included.", thinking, "role", "kind"),
		results: m.counter("debrief_model_calls_total", "Calls of a model, by how they ended.", "role", "kind", "result"),
	}
	m.registry.MustRegister(m.models, redactions{}, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

var redacted = describe("debrief_redactions_total", "Secrets that this process replaced in texts.", "secret")

// redactions collects what was replaced.
type redactions struct{}

func (redactions) Describe(to chan<- *prometheus.Desc) { to <- redacted }

func (redactions) Collect(to chan<- prometheus.Metric) {
	for class, n := range redact.Counts {
		count(to, redacted, float64(n), class)
	}
}

// atOnce is how many may ask at the same time: each asks the server in turn.
const atOnce = 4

// Handler answers Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: atOnce, Timeout: 8 * time.Second,
	})
}

// seconds are the buckets of what takes from a third of a millisecond to a minute.
var seconds = []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 60}

// thinking are those of calls of models, which take from some milliseconds to minutes.
var thinking = []float64{.01, .03, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60, 120}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func count(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// flag is 1 for true.
func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

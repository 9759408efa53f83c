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

// Metrics is the registry of one process. Each part of the process is added once, before the first scrape.
type Metrics struct {
	registry        *prometheus.Registry
	models          *models
	requestDuration *prometheus.HistogramVec // duration of requests of outside agents
	requests        *prometheus.CounterVec
	behind          func(context.Context) (uint64, error) // nil without a follower
	storeLimit      int64                                 // size limit of the store in bytes, 0 if unknown
}

// New returns the registry of a program.
func New(program, version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "debrief_build_info", Help: "Version of the program; the value is always 1.",
		ConstLabels: prometheus.Labels{"program": program, "version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	m.requestDuration = m.histogram("debrief_request_seconds", "Duration of requests of outside agents.", seconds, "door", "verb")
	m.requests = m.counter("debrief_requests_total", "Requests of outside agents, by status code.", "door", "verb", "code")
	m.models = &models{
		duration: m.histogram("debrief_model_seconds", "Duration of calls of a model, including waits and retries.", modelSeconds, "role", "kind"),
		results:  m.counter("debrief_model_calls_total", "Calls of a model, by result.", "role", "kind", "result"),
	}
	m.registry.MustRegister(m.models, redactions{}, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

var redacted = describe("debrief_redactions_total", "Secrets that this process replaced in texts, by kind.", "secret")

// redactions collects the counters of replaced secrets.
type redactions struct{}

func (redactions) Describe(to chan<- *prometheus.Desc) { to <- redacted }

func (redactions) Collect(to chan<- prometheus.Metric) {
	for class, n := range redact.Counts {
		count(to, redacted, float64(n), class)
	}
}

// maxScrapes limits concurrent scrapes, because each one sends requests to the server.
const maxScrapes = 4

// Handler returns the HTTP handler for Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes, Timeout: 8 * time.Second,
	})
}

// seconds are the buckets for durations from 0.3 ms to a minute.
var seconds = []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 60}

// modelSeconds are the buckets for model calls, which take from some milliseconds to minutes.
var modelSeconds = []float64{.01, .03, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60, 120}

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

// flag returns 1 for true and 0 for false.
func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

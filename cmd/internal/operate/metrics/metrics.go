package metrics

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"debrief/events/liveness"
	"debrief/events/redact"
)

// Metrics is the registry of one process. Each part of the process is added once, before the first scrape.
type Metrics struct {
	registry        *prometheus.Registry
	models          *models
	requestDuration *prometheus.HistogramVec              // of requests of outside agents
	requests        *prometheus.CounterVec                // of outside agents
	followerLag     func(context.Context) (uint64, error) // see SetFollowerLag; nil without a follower
	storeLimit      int64                                 // size limit of the store in bytes, 0 if unknown
	gatewayCalls    liveness.Calls
	playbooks       *playbooks
}

// Calls returns the counts of calls of models for health reports. Only a gateway has calls.
func (m *Metrics) Calls() *liveness.Calls { return &m.gatewayCalls }

// Prices returns the prices of models; nil without any.
func (m *Metrics) Prices() *PriceTable { return m.playbooks.figures.Prices }

// New returns the registry of a program.
//
// It also exports the metrics of client_golang for Go (go_…) and for the process (process_…). Counters start at 0 with the
// process.
func New(program, version string, figures Figures) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.playbooks = newPlaybooks(m, figures)
	m.requestDuration = m.histogram("debrief_request_seconds", "Duration of requests of outside agents.", seconds, "endpoint", "verb")
	m.requests = m.counter("debrief_requests_total", "Requests of outside agents, by status code.", "endpoint", "verb", "code")
	m.models = &models{
		duration: m.histogram("debrief_model_seconds", "Duration of calls of a model, including waits and retries.", modelSeconds, "role", "kind"),
		results:  m.counter("debrief_model_calls_total", "Calls of a model, by result.", "role", "kind", "result"),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.register(m.models.collect, redactions, func(to scrape) { to.Gauge(buildInfo, 1, program, version, runtime.Version()) })
	return m
}

var buildInfo = describe("debrief_build_info", "Version of the program; the value is always 1.", "program", "version", "goversion")

var redacted = describe("debrief_redactions_total", "Secrets that this process replaced in texts, by kind.", "secret")

// redactions collects the counters of replaced secrets.
func redactions(to scrape) {
	for class, n := range redact.Counts {
		to.Counter(redacted, float64(n), class)
	}
}

// maxScrapes limits concurrent scrapes, because each one sends requests to the server.
const maxScrapes = 4

// Handler returns the HTTP handler for Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: 8 * time.Second})
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

// describe describes a metric whose values a collector reads at each scrape.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// register adds collectors. Scrapes may call one several times at once.
func (m *Metrics) register(all ...collector) {
	for _, c := range all {
		m.registry.MustRegister(c)
	}
}

// collector is a prometheus.Collector that reads values at each scrape. It describes no metrics in advance, because the values of the
// server are absent while the server does not respond.
type collector func(to scrape)

func (collector) Describe(chan<- *prometheus.Desc)      {}
func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

// scrape receives the values of a collector.
type scrape chan<- prometheus.Metric

// Gauge sends a value that may fall.
func (s scrape) Gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// Counter sends a value that only grows.
func (s scrape) Counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// flag returns 1 for true and 0 for false.
func flag(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

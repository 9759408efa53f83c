package metrics

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"debrief/cmd/internal/metrics/exposition"
	"debrief/events/liveness"
	"debrief/events/redact"
)

// Metrics is the registry of one process. Each part of the process is added once, before the first scrape.
type Metrics struct {
	registry        exposition.Registry
	models          *models
	requestDuration *exposition.Histograms // duration of requests of outside agents
	requests        *exposition.Counters
	behind          func(context.Context) (uint64, error) // nil without a follower
	storeLimit      int64                                 // size limit of the store in bytes, 0 if unknown
	calls           liveness.Calls
}

// Calls returns the counts of calls of models for health reports. Only a gateway has calls.
func (m *Metrics) Calls() *liveness.Calls { return &m.calls }

// New returns the registry of a program.
//
//	name                                 unit       kind      meaning
//	debrief_build_info                   –          gauge     1; program, version, goversion
//	debrief_redactions_total             secrets    counter   replaced in texts; secret: the kind, such as key, token, password
//
// It also exports those of Go (go_…) and, on Linux, of the process (process_…), with the names of client_golang. Counters
// start at 0 with the process.
func New(program, version string) *Metrics {
	m := new(Metrics)
	m.requestDuration = m.histogram("debrief_request_seconds", "Duration of requests of outside agents.", seconds, "endpoint", "verb")
	m.requests = m.counter("debrief_requests_total", "Requests of outside agents, by status code.", "endpoint", "verb", "code")
	m.models = &models{
		duration: m.histogram("debrief_model_seconds", "Duration of calls of a model, including waits and retries.", modelSeconds, "role", "kind"),
		results:  m.counter("debrief_model_calls_total", "Calls of a model, by result.", "role", "kind", "result"),
	}
	info := exposition.CollectorFunc(func(to *exposition.Scrape) { to.Gauge(buildInfo, 1, program, version, runtime.Version()) })
	m.registry.Register(m.models, redactions{}, info, exposition.CollectorFunc(exposition.Go), exposition.CollectorFunc(exposition.Process))
	return m
}

var buildInfo = describe("debrief_build_info", "Version of the program; the value is always 1.", "program", "version", "goversion")

var redacted = describe("debrief_redactions_total", "Secrets that this process replaced in texts, by kind.", "secret")

// redactions collects the counters of replaced secrets.
type redactions struct{}

func (redactions) Collect(to *exposition.Scrape) {
	for class, n := range redact.Counts {
		to.Counter(redacted, float64(n), class)
	}
}

// maxScrapes limits concurrent scrapes, because each one sends requests to the server.
const maxScrapes = 4

// Handler returns the HTTP handler for Prometheus.
func (m *Metrics) Handler() http.Handler {
	return m.registry.Handler(maxScrapes, 8*time.Second)
}

// seconds are the buckets for durations from 0.3 ms to a minute.
var seconds = []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 60}

// modelSeconds are the buckets for model calls, which take from some milliseconds to minutes.
var modelSeconds = []float64{.01, .03, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60, 120}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *exposition.Histograms {
	h := exposition.NewHistograms(describe(name, help, labels...), buckets)
	m.registry.Register(h)
	return h
}

func (m *Metrics) counter(name, help string, labels ...string) *exposition.Counters {
	c := exposition.NewCounters(describe(name, help, labels...))
	m.registry.Register(c)
	return c
}

func describe(name, help string, labels ...string) *exposition.Desc {
	return exposition.NewDesc(name, help, labels...)
}

// flag returns 1 for true and 0 for false.
func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

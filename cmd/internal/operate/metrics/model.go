package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/chat/openai"
	"debrief/generator"
)

// Results of model calls.
const (
	ok          = "ok"
	unavailable = "unavailable" // no call can succeed now
	refused     = "refused"     // the server refused this call
	tooLong     = "too_long"
	canceled    = "canceled" // cancelled by the caller
	failed      = "failed"
)

var results = []string{ok, unavailable, refused, tooLong, canceled, failed}

// Kinds of models.
const (
	chats  = "chat"
	embeds = "embedding"
)

// callCounters count the calls of one model by one role.
type callCounters struct {
	duration prometheus.Observer
	result   map[string]prometheus.Counter
}

// end counts a call that began at a time.
func (c *callCounters) end(ctx context.Context, began time.Time, err error) {
	c.duration.Observe(time.Since(began).Seconds())
	c.result[resultOf(ctx, err)].Inc()
}

// resultOf returns the value of the label result.
func resultOf(ctx context.Context, err error) string {
	if err == nil {
		return ok
	}
	var outage interface{ Unavailable() bool }
	var long interface{ TooLong() bool }
	var refusal *openai.Error
	switch {
	case ctx.Err() != nil:
		return canceled
	case errors.As(err, &outage) && outage.Unavailable():
		return unavailable
	case errors.As(err, &long) && long.TooLong():
		return tooLong
	case errors.As(err, &refusal):
		return refused
	}
	return failed
}

// models collects the counters of the clients.
type models struct {
	duration *prometheus.HistogramVec
	results  *prometheus.CounterVec
	clients  []client
}

type client struct {
	role, kind string
	stats      func() openai.Stats
}

var (
	modelInFlight = describe("debrief_model_in_flight_calls", "Calls in progress, including waiting ones.", "role", "kind")
	modelRequests = describe("debrief_model_requests_total", "Requests sent to the server.", "role", "kind")
	modelRetries  = describe("debrief_model_retries_total", "Requests that were repeated after a failure; also in debrief_model_requests_total.", "role", "kind")
	modelTokens   = describe("debrief_model_tokens_total", "Tokens, as reported by the server.", "role", "kind", "direction")
	modelCost     = describe("debrief_model_cost_dollars_total", "US dollars, at the prices of the flags; else 0.", "role", "kind")
	modelBreaker  = describe("debrief_model_breaker_state", "State of the circuit breaker: 1 for the current state. All are 0 without a model.", "role", "kind", "state")

	breakers = []string{"closed", "open", "half-open"}
)

func (m *models) collect(to scrape) {
	for _, c := range m.clients {
		s := c.stats()
		to.Gauge(modelInFlight, float64(s.InFlight), c.role, c.kind)
		to.Counter(modelRequests, float64(s.Requests), c.role, c.kind)
		to.Counter(modelRetries, float64(s.Retries), c.role, c.kind)
		to.Counter(modelTokens, float64(s.InputTokens), c.role, c.kind, "input")
		to.Counter(modelTokens, float64(s.OutputTokens), c.role, c.kind, "output")
		to.Counter(modelCost, s.Cost, c.role, c.kind)
		for _, b := range breakers {
			to.Gauge(modelBreaker, flag(s.Breaker == b), c.role, c.kind, b)
		}
	}
}

// statser is a client of package openai.
type statser interface{ Stats() openai.Stats }

// add adds a model or an embedder, and returns the counters for its calls. Its statistics are 0 unless it is a statser.
func (m *models) add(role, kind string, inner any) *callCounters {
	c := client{role: role, kind: kind, stats: func() openai.Stats { return openai.Stats{} }}
	if s, ok := inner.(statser); ok {
		c.stats = s.Stats
	}
	m.clients = append(m.clients, c)
	counters := &callCounters{duration: m.duration.WithLabelValues(role, kind), result: map[string]prometheus.Counter{}}
	for _, r := range results {
		counters.result[r] = m.results.WithLabelValues(role, kind, r)
	}
	return counters
}

// Model returns a model that counts the calls of a role. It returns nil for a nil model.
//
// Its metrics have the labels role and kind (chat, or the embedding of the Generator). Calls of a judge have the role judge if --judge-model
// is set, else generator. A call is one call by a role. It may take several requests, and it may wait for the rate
// limits. Without a model these metrics stay at 0.
func (m *Metrics) Model(role string, inner chat.Model) chat.Model {
	counters := m.models.add(role, chats, inner)
	if inner == nil {
		return nil
	}
	return &model{inner, counters}
}

// model is a chat.Model that counts its calls.
type model struct {
	chat.Model
	calls *callCounters
}

// Complete implements chat.Model.
func (m *model) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	began := time.Now()
	reply, err := m.Model.Complete(ctx, p)
	m.calls.end(ctx, began, err)
	return reply, err
}

// Waiting returns why the calls wait now, see chat.Waiting.
func (m *model) Waiting() string { return chat.Waiting(m.Model) }

// Reserve reserves a turn, see chat.Reserve.
func (m *model) Reserve(ctx context.Context) (context.Context, func(), error) {
	return chat.Reserve(ctx, m.Model)
}

// Embedder returns an embedder that counts the calls of the generator. It returns nil for a nil embedder.
func (m *Metrics) Embedder(inner generator.Embedder) generator.Embedder {
	counters := m.models.add(events.RoleGenerator, embeds, inner)
	if inner == nil {
		return nil
	}
	return &embedder{inner, counters}
}

// embedder is a generator.Embedder that counts its calls.
type embedder struct {
	generator.Embedder
	calls *callCounters
}

// Embed implements generator.Embedder.
func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	began := time.Now()
	vectors, err := e.Embedder.Embed(ctx, texts)
	e.calls.end(ctx, began, err)
	return vectors, err
}

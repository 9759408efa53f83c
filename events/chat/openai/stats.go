package openai

import (
	"sync/atomic"

	"debrief/events/chat"
)

// Stats are the counters of a client since its creation. For an Embedder a call is a batch of texts.
type Stats struct {
	Calls    int64 // of Complete, or batches
	Failures int64 // calls that ended with an error, except those cancelled by the caller
	Requests int64 // on the wire
	Retries  int64 // requests repeated after a failure
	InFlight int64 // calls in progress, including those that wait

	InputTokens  int64
	OutputTokens int64
	Cost         float64 // US dollars, 0 if no price is known

	Limit   int    // of concurrent requests, at present; of all clients that share the model
	Breaker string // "closed", "open" or "half-open"
}

type counters struct {
	calls, failures, requests, retries, inFlight, input, output atomic.Int64
}

func (n *counters) sent(attempt int) {
	n.requests.Add(1)
	if attempt > 0 {
		n.retries.Add(1)
	}
}

func (n *counters) received(u chat.Usage) {
	n.input.Add(int64(u.InputTokens))
	n.output.Add(int64(u.OutputTokens))
}

// Stats returns the counters. Each number is exact, but they are not read at the same instant.
func (s *caller) Stats() Stats {
	n := &s.counters
	in, out := n.input.Load(), n.output.Load()
	limit, _ := s.concurrency.current()
	return Stats{
		Calls:        n.calls.Load(),
		Failures:     n.failures.Load(),
		Requests:     n.requests.Load(),
		Retries:      n.retries.Load(),
		InFlight:     n.inFlight.Load(),
		InputTokens:  in,
		OutputTokens: out,
		Cost:         s.cost(in, out), // computed from the totals: a sum of costs would accumulate rounding errors
		Limit:        limit,
		Breaker:      s.breaker.State().String(),
	}
}

// Healthy returns nil until a call fails because the server is unavailable. It then returns that call's
// *chat.UnavailableError until the server processes a prompt.
func (s *server) Healthy() error {
	if u := s.lastUnavailable.Load(); u != nil {
		return u
	}
	return nil
}

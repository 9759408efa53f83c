package llm

import (
	"sync/atomic"

	"debrief/events/chat"
)

// Stats is what a client has done since it was made.
type Stats struct {
	Calls    int64 // of Complete, or batches of texts
	Failures int64 // calls that ended in an error, other than the caller's giving up
	Requests int64 // on the wire
	Retries  int64 // requests that were repeated after a failure
	InFlight int64 // calls under way, those that wait included

	InputTokens  int64
	OutputTokens int64
	Cost         float64 // US dollars, 0 when no price is known

	Breaker string   // "closed", "open" or "half-open"
	Without []string // what the server turned out not to understand or take, such as "response_format"
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

// Stats is cheap; each number is exact, though not all of one instant.
func (c *Client) Stats() Stats { return c.stats(c.dialect.without()) }

func (s *server) stats(without []string) Stats {
	n := &s.counters
	in, out := n.input.Load(), n.output.Load()
	return Stats{
		Calls:        n.calls.Load(),
		Failures:     n.failures.Load(),
		Requests:     n.requests.Load(),
		Retries:      n.retries.Load(),
		InFlight:     n.inFlight.Load(),
		InputTokens:  in,
		OutputTokens: out,
		Cost:         s.cost(in, out), // rather than a sum of sums, which drifts
		Breaker:      s.breaker.State().String(),
		Without:      without,
	}
}

// Healthy is nil until a call finds that nobody can be asked, and again once the server deals with a prompt. In
// between it is that call's *chat.UnavailableError.
func (s *server) Healthy() error {
	if u := s.trouble.Load(); u != nil {
		return u
	}
	return nil
}

package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

// server is the far side as one client knows it, whatever it is asked for: how much it may be asked, how it fares, and
// what was spent on it.
type server struct {
	cfg      Config
	settings settings
	base     http.RoundTripper
	openai   *openai.Client

	limits  limits
	budget  *budget
	breaker circuitbreaker.CircuitBreaker[any]
	chain   failsafe.Executor[any]

	counters counters
	outage   atomic.Pointer[Error]                 // the last one that the breaker counted
	trouble  atomic.Pointer[chat.UnavailableError] // nil since the server last dealt with a prompt
}

func newServer(cfg Config, names settings, base http.RoundTripper) (*server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(names); err != nil {
		return nil, err
	}
	s := &server{
		cfg:      cfg,
		settings: names,
		base:     base,
		openai:   newOpenAI(cfg, base),
		limits:   newLimits(cfg.RequestsPerMinute, cfg.TokensPerMinute),
		budget:   newBudget(cfg.RetryShare),
	}
	s.breaker = s.newBreaker()
	s.chain = failsafe.With[any](s.newBulkhead(), s.newRetries(), s.breaker)
	return s, nil
}

// Close lets go of idle connections. Calls under way are not touched.
func (s *server) Close() {
	if t, ok := s.base.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Format keeps fmt from walking into fields that hold the key.
func (s *server) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s at %s", s.cfg.Model, s.cfg.BaseURL)
}

// call is one thing asked of the server. Its functions are called one after the other.
type call struct {
	operation string // "chat" or "embeddings"
	estimate  int    // tokens
	most      int64  // bytes of the answer
	// send sends it once, and keeps the answer.
	send func(ctx context.Context, x *exchange) (chat.Usage, error)
	// learn says whether the refusal is about something that need not be sent, or not so much of it.
	learn func(e *Error, s said) bool
}

// do carries a call out, in a span of the caller's trace. The package comment lists its errors.
func (s *server) do(ctx context.Context, c call) error {
	ctx, span := s.begin(ctx, c.operation)
	requests, usage, send := 0, chat.Usage{}, c.send
	c.send = func(ctx context.Context, x *exchange) (u chat.Usage, err error) {
		requests++
		usage, err = send(ctx, x)
		return usage, err
	}
	err := s.carryOut(ctx, c)
	end(span, requests, usage, err)
	return err
}

func (s *server) carryOut(ctx context.Context, c call) error {
	s.counters.calls.Add(1)
	s.counters.inFlight.Add(1)
	defer s.counters.inFlight.Add(-1)

	if err := pause(ctx, s.limits.reserve(c.estimate)); err != nil {
		return err
	}
	err := s.chain.WithContext(ctx).RunWithExecution(func(x failsafe.Execution[any]) error {
		return s.attempt(x.Context(), c, x.Retries())
	})
	if err == nil {
		s.trouble.Store(nil)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.counters.failures.Add(1)
	return s.verdict(err)
}

// verdict turns the last attempt's error into what the caller is to do.
func (s *server) verdict(err error) error {
	if errors.Is(err, circuitbreaker.ErrOpen) {
		err = fmt.Errorf("no call until %s has recovered", s.cfg.BaseURL)
		if last := s.outage.Load(); last != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
		return s.unavailable(&chat.UnavailableError{Err: err, After: s.breaker.RemainingDelay(), NotSent: true})
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	switch e.kind {
	case tooLong:
		s.trouble.Store(nil)
		return &chat.TooLongError{Err: e}
	case refused:
		s.trouble.Store(nil)
		return e
	}
	return s.unavailable(&chat.UnavailableError{Err: e, After: max(e.after, s.breaker.RemainingDelay())})
}

func (s *server) unavailable(u *chat.UnavailableError) error {
	s.trouble.Store(u)
	return u
}

var errTimeout = errors.New("the attempt's time is up")

// attempt sends the call once, or once more for each thing that the server turns out not to understand.
func (s *server) attempt(caller context.Context, c call, n int) error {
	if n == 0 {
		s.budget.earn() // here, as the breaker lets no call through that earns nothing
	}
	ctx, cancel := context.WithTimeoutCause(caller, s.cfg.Timeout, errTimeout)
	defer cancel()
	for {
		x := &exchange{attempt: n, most: c.most}
		s.counters.sent(n)
		usage, err := c.send(x.attach(ctx), x)
		if err == nil && x.ok() {
			s.counters.received(usage)
			s.limits.charge(usage.Tokens() - c.estimate)
			return nil
		}
		if caller.Err() != nil {
			return caller.Err()
		}
		if err == nil {
			err = io.ErrUnexpectedEOF // go-openai takes a redirect for a reply
		}
		if context.Cause(ctx) == errTimeout {
			err = errTimeout
		}
		said := parseSaid(x.body)
		e := s.failure(x, said, err)
		s.failed(caller, n, e)
		if c.learn(e, said) {
			continue
		}
		if e.kind == down {
			s.outage.Store(e)
		}
		return e
	}
}

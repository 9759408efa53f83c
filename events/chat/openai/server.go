package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

// server is the connection to a server, with a limit of requests, retries and a circuit breaker. The clients of one model share it. An Embedder has its
// own.
type server struct {
	cfg    Config
	base   http.RoundTripper // sends the requests
	openai *openai.Client    // encodes requests and decodes responses

	concurrency  *concurrency
	breaker      circuitbreaker.CircuitBreaker[any]
	withRetries  failsafe.Executor[any] // runs the attempts of a call
	underBreaker failsafe.Executor[any] // runs one attempt, or rejects it

	warned          atomic.Bool                           // a timeout was logged
	warnedSlow      atomic.Bool                           // a slow call was logged
	reached         atomic.Bool                           // the server has answered, with any status
	firstUnreached  atomic.Pointer[time.Time]             // when a connection first failed; nil without a failure
	lastOutage      atomic.Pointer[Error]                 // the last error counted by the breaker
	lastUnavailable atomic.Pointer[chat.UnavailableError] // nil since the server last processed a prompt
}

func newServer(cfg Config, base http.RoundTripper) (*server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &server{
		cfg:    cfg,
		base:   base,
		openai: newOpenAI(cfg, base),
	}
	initial := cfg.MaxConcurrent
	if cfg.isLocal() {
		initial = min(2, initial) // with 1, the others would wait for the first call, however long it takes
	}
	s.concurrency = newConcurrency(initial, cfg.MaxConcurrent, cfg.Timeout)
	s.breaker = s.newBreaker()
	s.withRetries = failsafe.With[any](s.newRetries())
	s.underBreaker = failsafe.With[any](s.breaker)
	return s, nil
}

// caller is one user of a server, such as a role.
type caller struct {
	*server
	counters counters
	active   activeCalls
}

// Close closes idle connections. Calls in progress continue.
func (s *server) Close() {
	if t, ok := s.base.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Format implements fmt.Formatter, so that fmt does not print fields with the key.
func (s *server) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s at %s", s.cfg.Model, s.cfg.BaseURL)
}

// call is one call to the server. Its functions are not called concurrently.
type call struct {
	operation string      // "chat" or "embeddings"
	maxBody   int64       // maximum bytes of the response
	keptBody  int         // bytes of the response that are kept for send and for errors
	active    *activeCall // the state of the call, for Waiting; do sets it
	// send sends the call once and keeps the response.
	send func(ctx context.Context, x *exchange) (chat.Usage, error)
	// adapt changes later requests after a refusal. It reports whether the refusal is about a part of the request
	// that can be omitted or reduced, so that the call is sent again.
	adapt func(e *Error, body errorBody) bool
}

// do executes a call in a span of the caller's trace. The package comment lists its errors.
func (s *caller) do(ctx context.Context, c call) (err error) {
	ctx, span := s.startSpan(ctx, c.operation)
	s.counters.calls.Add(1)
	s.counters.inFlight.Add(1)
	defer s.counters.inFlight.Add(-1)
	active, done := s.track(ctx)
	defer done()
	c.active = active
	defer func() { endSpan(span, active.requests, active.usage, err) }()

	err = s.withRetries.WithContext(ctx).RunWithExecution(func(x failsafe.Execution[any]) error {
		return s.request(x.Context(), c, x.Retries())
	})
	if err == nil {
		s.lastUnavailable.Store(nil)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.counters.failures.Add(1)
	return s.callError(err)
}

// request waits for a turn at the server, and makes the attempt with the number n, from 0. The breaker may reject the attempt.
func (s *caller) request(ctx context.Context, c call, n int) error {
	if !s.useReservation(ctx) {
		if err := s.concurrency.begin(ctx, s); err != nil {
			return err
		}
	}
	began := time.Now()
	c.active.set(sent)
	err := s.underBreaker.WithContext(ctx).RunWithExecution(func(x failsafe.Execution[any]) error { return s.attempt(x.Context(), c, n) })
	e, failed := errors.AsType[*Error](err)
	isBusy := failed && e.kind == busy
	sign := noSign
	switch {
	case err == nil:
		sign = answered
	case isBusy, failed && e.timedOut:
		sign = overloaded
	}
	if isBusy && e.after <= maxRetryAfter { // after a longer one the calls end
		s.concurrency.pause(cmp.Or(e.after, s.cfg.Backoff))
	}
	s.concurrency.end(began, sign)
	if isBusy {
		c.active.set(limited)
	} else {
		c.active.set(queued) // until a retry, or until the call is done
	}
	return err
}

// callError returns the caller's error for the error of the last attempt.
func (s *server) callError(err error) error {
	if errors.Is(err, circuitbreaker.ErrOpen) {
		err = fmt.Errorf("circuit open, no calls until %s recovers", s.cfg.BaseURL)
		if last := s.lastOutage.Load(); last != nil {
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
		s.lastUnavailable.Store(nil)
		return &chat.TooLongError{Err: e}
	case refused:
		s.lastUnavailable.Store(nil)
		return e
	}
	return s.unavailable(&chat.UnavailableError{Err: e, After: max(e.after, s.breaker.RemainingDelay()), Permanent: e.kind == misconfigured})
}

// startTime is how long a server may take to start. A server that was not reachable for longer, and never before, has
// probably another address.
const startTime = 5 * time.Second

// unavailable records u for Healthy and returns it.
func (s *server) unavailable(u *chat.UnavailableError) error {
	first := s.firstUnreached.Load()
	neverReached := first != nil && !s.reached.Load()
	if neverReached && time.Since(*first) > startTime {
		u.Permanent = true
	}
	s.lastUnavailable.Store(u)
	return u
}

var errTimeout = errors.New("timeout of the attempt")

// attempt sends the call, and sends it again for each part of the request that the server does not support.
func (s *caller) attempt(parent context.Context, c call, n int) error {
	ctx, cancel := context.WithTimeoutCause(parent, s.cfg.Timeout, errTimeout)
	defer cancel()
	for {
		x := &exchange{attempt: n, maxBody: c.maxBody, keptBody: c.keptBody}
		s.counters.sent(n)
		usage, err := c.send(context.WithValue(ctx, exchangeKey{}, x), x)
		c.active.requests++
		c.active.usage = usage
		if err == nil && x.ok() {
			s.reached.Store(true)
			s.counters.received(usage)
			return nil
		}
		if parent.Err() != nil {
			return parent.Err()
		}
		switch {
		case errors.Is(context.Cause(ctx), errTimeout):
			err = errTimeout
		case err == nil:
			err = io.ErrUnexpectedEOF // go-openai treats a redirect as a reply
		}
		if x.status != 0 {
			s.reached.Store(true)
		}
		body := parseErrorBody(x.body)
		e := s.failure(x, body, err)
		e.final = e.timedOut && n > 0 // see Error.final
		if e.unreached {
			now := time.Now()
			s.firstUnreached.CompareAndSwap(nil, &now)
		}
		s.logFailure(parent, n, e)
		if c.adapt(e, body) {
			continue
		}
		if e.kind == down {
			s.lastOutage.Store(e)
		}
		return e
	}
}

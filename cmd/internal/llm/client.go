// Package llm is the chat.Model that speaks to OpenAI-compatible servers: OpenAI, vLLM, Ollama, llama.cpp, and proxies.
//
// A call passes, in this order, the rate limits, the bulkhead, the retries with their budget, the breaker and the
// timeout of one attempt. What comes out is a reply or an error that says by its behaviour what to do:
//
//	*chat.UnavailableError  nobody can be asked now: pause the role. The server is down, busy beyond patience, or
//	                        refuses the key, the model or the account; the text says what a person has to do.
//	*chat.TooLongError      shrink the prompt.
//	*Error                  the server refused this one prompt.
//	the context's error     the caller gave up.
//
// The package reads no environment and logs nothing, and the key is in no error and no text that it makes.
package llm

import (
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

// Client is a chat.Model. It is safe for concurrent use.
type Client struct {
	cfg     Config
	base    http.RoundTripper
	openai  *openai.Client
	dialect dialect

	limits  limits
	budget  *budget
	breaker circuitbreaker.CircuitBreaker[chat.Reply]
	chain   failsafe.Executor[chat.Reply]

	counters counters
	outage   atomic.Pointer[Error]                 // the last one that the breaker counted
	trouble  atomic.Pointer[chat.UnavailableError] // nil since the server last dealt with a prompt
}

var _ chat.Model = (*Client)(nil)

// New fills in defaults, validates, and allocates. It does not speak to the server.
func New(cfg Config) (*Client, error) {
	cfg = cfg.WithDefaults()
	return newClient(cfg, newTransport(cfg.MaxConcurrent))
}

func newClient(cfg Config, base http.RoundTripper) (*Client, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{
		cfg:    cfg,
		base:   base,
		openai: newOpenAI(cfg, base),
		limits: newLimits(cfg.RequestsPerMinute, cfg.TokensPerMinute),
		budget: newBudget(cfg.RetryShare),
	}
	c.breaker = c.newBreaker()
	c.chain = failsafe.With[chat.Reply](c.newBulkhead(), c.newRetries(), c.breaker)
	return c, nil
}

// Close lets go of idle connections. Calls under way are not touched.
func (c *Client) Close() {
	if t, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Format keeps fmt from walking into fields that hold the key.
func (c *Client) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s at %s", c.cfg.Model, c.cfg.BaseURL)
}

// Complete implements chat.Model. The package comment lists its errors.
func (c *Client) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	c.counters.calls.Add(1)
	c.counters.inFlight.Add(1)
	defer c.counters.inFlight.Add(-1)
	c.budget.earn()

	estimate := estimateTokens(p)
	if err := pause(ctx, c.limits.reserve(estimate)); err != nil {
		return chat.Reply{}, err
	}
	reply, err := c.chain.WithContext(ctx).GetWithExecution(func(x failsafe.Execution[chat.Reply]) (chat.Reply, error) {
		return c.attempt(x.Context(), p, x.Retries())
	})
	if err == nil {
		c.limits.charge(reply.Usage.Tokens() - estimate)
		c.trouble.Store(nil)
		return reply, nil
	}
	if ctx.Err() != nil {
		return chat.Reply{}, ctx.Err()
	}
	c.counters.failures.Add(1)
	return chat.Reply{}, c.verdict(err)
}

// verdict turns the last attempt's error into what the caller is to do.
func (c *Client) verdict(err error) error {
	if errors.Is(err, circuitbreaker.ErrOpen) {
		err = fmt.Errorf("no call until %s has recovered", c.cfg.BaseURL)
		if last := c.outage.Load(); last != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
		return c.unavailable(err, c.breaker.RemainingDelay())
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	switch e.kind {
	case tooLong:
		c.trouble.Store(nil)
		return &chat.TooLongError{Err: e}
	case refused:
		c.trouble.Store(nil)
		return e
	}
	return c.unavailable(e, max(e.after, c.breaker.RemainingDelay()))
}

func (c *Client) unavailable(err error, after time.Duration) error {
	u := &chat.UnavailableError{Err: err, After: after}
	c.trouble.Store(u)
	return u
}

var errTimeout = errors.New("the attempt's time is up")

// attempt sends the prompt once, or once more for each thing that the server turns out not to understand.
func (c *Client) attempt(caller context.Context, p chat.Prompt, n int) (chat.Reply, error) {
	ctx, cancel := context.WithTimeoutCause(caller, c.cfg.Timeout, errTimeout)
	defer cancel()
	for {
		x := &exchange{attempt: n}
		req := c.request(p)
		c.counters.sent(n)
		reply, err := c.call(x.attach(ctx), req)
		if err == nil && x.ok() {
			c.counters.received(reply.Usage)
			return reply, nil
		}
		if caller.Err() != nil {
			return chat.Reply{}, caller.Err()
		}
		if err == nil {
			err = io.ErrUnexpectedEOF // go-openai takes a redirect for a reply
		}
		if context.Cause(ctx) == errTimeout {
			err = errTimeout
		}
		said := parseSaid(x.body)
		e := c.failure(x, said, err)
		if c.dialect.learn(e, said, &req) {
			continue
		}
		if e.kind == down {
			c.outage.Store(e)
		}
		return chat.Reply{}, e
	}
}

// estimateTokens is a guess at what the prompt costs, before the server says: 3.4 bytes to the token.
func estimateTokens(p chat.Prompt) int {
	bytes := len(p.Schema)
	for _, m := range p.Messages {
		bytes += len(m.Text)
	}
	return int(float64(bytes) / 3.4)
}

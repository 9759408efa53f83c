package llm

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"debrief/events/chat"
)

// newBulkhead bounds the requests at a time. Its waiters wait as long as their contexts let them.
func (c *Client) newBulkhead() bulkhead.Bulkhead[chat.Reply] {
	return bulkhead.NewBuilder[chat.Reply](uint(c.cfg.MaxConcurrent)).WithMaxWaitTime(math.MaxInt64).Build()
}

// newRetries asks again while there are attempts, budget and patience left; an open breaker ends a call at once.
func (c *Client) newRetries() retrypolicy.RetryPolicy[chat.Reply] {
	return retrypolicy.NewBuilder[chat.Reply]().
		HandleIf(func(_ chat.Reply, err error) bool {
			e, ok := errors.AsType[*Error](err)
			return ok && e.kind.retryable() && e.after <= c.cfg.MaxWait
		}).
		AbortIf(func(chat.Reply, error) bool { return c.budget.spent() }).
		WithMaxAttempts(c.cfg.Attempts).
		WithDelayFunc(func(x failsafe.ExecutionAttempt[chat.Reply]) time.Duration {
			c.budget.spend()
			// A retry is a request like any other. Its place in the rate is waited for along with the rest.
			return max(c.backoff(x), c.limits.reserve(0))
		}).
		ReturnLastFailure().
		Build()
}

// backoff is the server's Retry-After or our own doubling pause, with half a pause of chance, so that those who failed
// together do not come back together.
func (c *Client) backoff(x failsafe.ExecutionAttempt[chat.Reply]) time.Duration {
	pause := c.cfg.Backoff << min(x.Retries(), 4)
	chance := rand.N(pause/2 + 1)
	if e, ok := errors.AsType[*Error](x.LastError()); ok && e.after > 0 {
		return e.after + chance
	}
	return pause + chance
}

// newBreaker stops asking a server that does not answer. One that answers, if only with 429, keeps it closed.
func (c *Client) newBreaker() circuitbreaker.CircuitBreaker[chat.Reply] {
	n := uint(c.cfg.BreakAfter)
	return circuitbreaker.NewBuilder[chat.Reply]().
		HandleIf(func(_ chat.Reply, err error) bool {
			if e, ok := errors.AsType[*Error](err); ok {
				return e.kind == down
			}
			// What is left is that the caller gave up, which says nothing of the server. The breaker has no word for
			// that: as a success it costs a closed one little, but a probe that ends this way must not close it.
			return err != nil && c.breaker.IsHalfOpen()
		}).
		WithFailureThresholdRatio(n, 2*n).
		WithSuccessThreshold(1). // also: one probe at a time
		WithDelay(c.cfg.Cooldown).
		Build()
}

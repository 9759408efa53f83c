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
)

// newBulkhead bounds the requests at a time. Its waiters wait as long as their contexts let them.
func (s *server) newBulkhead() bulkhead.Bulkhead[any] {
	return bulkhead.NewBuilder[any](uint(s.cfg.MaxConcurrent)).WithMaxWaitTime(math.MaxInt64).Build()
}

// newRetries asks again while there are attempts, budget and patience left; an open breaker ends a call at once.
func (s *server) newRetries() retrypolicy.RetryPolicy[any] {
	return retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool {
			e, ok := errors.AsType[*Error](err)
			return ok && e.kind.retryable() && e.after <= s.cfg.MaxWait
		}).
		AbortIf(func(any, error) bool { return s.budget.spent() }).
		WithMaxAttempts(s.cfg.Attempts).
		WithDelayFunc(func(x failsafe.ExecutionAttempt[any]) time.Duration {
			s.budget.spend()
			// A retry is a request like any other. Its place in the rate is waited for along with the rest.
			return max(s.backoff(x), s.limits.reserve(0))
		}).
		ReturnLastFailure().
		Build()
}

// backoff is the server's Retry-After or our own doubling pause, with half a pause of chance, so that those who failed
// together do not come back together.
func (s *server) backoff(x failsafe.ExecutionAttempt[any]) time.Duration {
	pause := s.cfg.Backoff << min(x.Retries(), 4)
	chance := rand.N(pause/2 + 1)
	if e, ok := errors.AsType[*Error](x.LastError()); ok && e.after > 0 {
		return e.after + chance
	}
	return pause + chance
}

// newBreaker stops asking a server that does not answer. One that answers, if only with 429, keeps it closed.
func (s *server) newBreaker() circuitbreaker.CircuitBreaker[any] {
	n := uint(s.cfg.BreakAfter)
	return circuitbreaker.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool {
			if e, ok := errors.AsType[*Error](err); ok {
				return e.kind == down
			}
			// What is left is that the caller gave up, which says nothing of the server. The breaker has no word for
			// that: as a success it costs a closed one little, but a probe that ends this way must not close it.
			return err != nil && s.breaker.IsHalfOpen()
		}).
		WithFailureThresholdRatio(n, 2*n).
		WithSuccessThreshold(1). // also: one probe at a time
		WithDelay(s.cfg.Cooldown).
		Build()
}

package openai

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// maxRetryAfter is the longest Retry-After that a call waits for. For a longer one the call returns a *chat.UnavailableError with the delay.
const maxRetryAfter = 30 * time.Second

// newRetries returns a policy that retries while attempts are left. It does not retry if Retry-After is too long, if the
// server was never reached (see Error.unreached), or after the second timeout (see Error.final). The error of an open breaker is not an
// *Error, so it ends the call at once.
func (s *server) newRetries() retrypolicy.RetryPolicy[any] {
	return retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool {
			e, ok := errors.AsType[*Error](err)
			return ok && e.kind.retryable() && !e.unreached && !e.final && e.after <= maxRetryAfter
		}).
		WithMaxAttempts(s.cfg.Attempts).
		WithDelayFunc(s.backoff).
		ReturnLastFailure().
		Build()
}

// backoff returns the server's Retry-After or a doubling pause. It adds up to half a pause of jitter, so that
// concurrent failures do not retry at the same time.
func (s *server) backoff(x failsafe.ExecutionAttempt[any]) time.Duration {
	pause := s.cfg.Backoff << min(x.Retries(), 4)
	chance := rand.N(pause/2 + 1)
	if e, ok := errors.AsType[*Error](x.LastError()); ok && e.after > 0 {
		return e.after + chance
	}
	return pause + chance
}

// newBreaker returns a circuit breaker that stops calls to a server that does not respond. Any response, even a 429, counts as a success.
func (s *server) newBreaker() circuitbreaker.CircuitBreaker[any] {
	n := uint(s.cfg.BreakerThreshold)
	return circuitbreaker.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool {
			if e, ok := errors.AsType[*Error](err); ok {
				return e.kind == down
			}
			// Any other error means that the caller has cancelled, which says nothing about the server. The breaker has no neutral
			// result. So this is a failure for a half-open breaker, which must not close, and else a success.
			return err != nil && s.breaker.IsHalfOpen()
		}).
		WithFailureThresholdRatio(n, 2*n).
		WithSuccessThreshold(1). // also allows one probe at a time
		WithDelay(s.cfg.BreakerCooldown).
		Build()
}

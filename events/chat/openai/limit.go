package openai

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits keep the client below the server's limits per minute. Waiting costs less than a 429.
type limits struct {
	requests, tokens *rate.Limiter // nil means no limit
}

func newLimits(requests, tokens int) limits { return limits{perMinute(requests), perMinute(tokens)} }

// perMinute returns a limiter with a burst of a tenth of the allowance. The maximum in one minute is therefore 110 %.
func perMinute(n int) *rate.Limiter {
	if n == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(float64(n)/60), max(1, n/10))
}

// reserve reserves one request of about this number of tokens and returns the time to wait for it. The
// reservation stays, also if the caller does not wait.
func (l limits) reserve(tokens int) time.Duration {
	return max(reserveN(l.requests, 1), reserveN(l.tokens, tokens))
}

// reserveN reserves n in pieces of at most the burst, because the limiter refuses larger ones.
func reserveN(l *rate.Limiter, n int) (wait time.Duration) {
	if l == nil {
		return 0
	}
	for now := time.Now(); n > 0; {
		piece := min(n, l.Burst())
		wait = l.ReserveN(now, piece).DelayFrom(now)
		n -= piece
	}
	return wait
}

// pause waits for d. It returns the context's error if the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

const (
	// budgetFull is the maximum number of retries in a row. Further retries need more calls or more time.
	budgetFull = 10
	// budgetTrickle is the number of retries per second that are added to the budget, so that a client with few calls
	// can retry again.
	budgetTrickle = 0.1
)

// budget keeps retries from multiplying the load on a server in trouble. Every call that is sent earns a share of a
// retry. Calls rejected by an open breaker earn nothing, because a long outage would fill the budget. (Package budget
// of failsafe-go limits only concurrent retries, which a small client never reaches.)
type budget struct {
	share float64 // of a retry that a call earns
	mu    sync.Mutex
	left  float64   // retries
	at    time.Time // of the last change
}

func newBudget(share float64) *budget { return &budget{share: share, left: budgetFull} }

func (b *budget) earn()  { b.add(b.share) }
func (b *budget) spend() { b.add(-1) }

// spent reports whether no retry is left. Concurrent callers may overdraw the budget; later calls pay it back.
func (b *budget) spent() bool { return b.add(0) < 1 }

func (b *budget) add(n float64) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.at.IsZero() {
		n += now.Sub(b.at).Seconds() * budgetTrickle
	}
	b.at = now
	b.left = min(budgetFull, b.left+n)
	return b.left
}

package llm

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits keep below what the server allows per minute, which is cheaper than being told 429.
type limits struct {
	requests, tokens *rate.Limiter // nil is no limit
}

func newLimits(requests, tokens int) limits { return limits{perMinute(requests), perMinute(tokens)} }

// perMinute lets a tenth of the minute's allowance through at once, so the worst minute sees 110 % of it.
func perMinute(n int) *rate.Limiter {
	if n == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(float64(n)/60), max(1, n/10))
}

// reserve takes a place for one request of about so many tokens and says how long to wait for it. The place is not
// given back when the caller does not wait.
func (l limits) reserve(tokens int) time.Duration {
	return max(take(l.requests, 1), take(l.tokens, tokens))
}

// charge takes tokens that are known only afterwards; whoever reserves next waits for them.
func (l limits) charge(tokens int) { take(l.tokens, tokens) }

// take takes n in pieces no larger than the burst, as the limiter refuses more at once, and counts every one of them.
func take(l *rate.Limiter, n int) (wait time.Duration) {
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

// pause waits, or ends with the context's error.
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
	// budgetFull is how many retries may come in a row, after which they wait for calls or time to pass.
	budgetFull = 10
	// budgetTrickle retries a second come back by themselves, lest a client with few calls never retries again.
	budgetTrickle = 0.1
)

// budget keeps retries from multiplying the load on a server that is in trouble. Every call that is sent earns a share of a
// retry; those that an open breaker turns away do not, or a long outage would fill the budget.
// (Package budget of failsafe-go bounds only how many retries run at the same time, which a small client never meets.)
type budget struct {
	share float64
	mu    sync.Mutex
	left  float64
	at    time.Time
}

func newBudget(share float64) *budget { return &budget{share: share, left: budgetFull} }

func (b *budget) earn()  { b.add(b.share) }
func (b *budget) spend() { b.add(-1) }

// spent says whether there is no retry left. Callers that ask at the same moment may overdraw; later ones pay for it.
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

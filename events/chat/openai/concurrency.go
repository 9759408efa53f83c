package openai

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// concurrency limits the requests in flight to a number that the server answers in time. If n is the limit, n answers within half of the
// timeout raise it by one. A timeout or a busy server halves it. This is the additive increase and multiplicative decrease of TCP (Chiu
// and Jain, 1989).
//
// A model on a laptop handles one request at a time. With 16 requests in flight at 8 s each, all after the seventh exceed 60 s, so they are
// paid and thrown away. (Package adaptivelimiter of failsafe-go ignores timeouts, and changes its limit ten times before it knows a trend.
// With one slot at 8 s it wastes a fifth of the requests.)
type concurrency struct {
	permits *semaphore.Weighted // max permits, of which those above the limit are withheld
	fast    time.Duration       // an answer within this time raises the limit
	max     int

	mu       sync.Mutex
	limit    float64
	withheld int
	inFlight int
	reduced  time.Time // when the limit was last reduced
}

func newConcurrency(initial, maximum int, timeout time.Duration) *concurrency {
	c := &concurrency{permits: semaphore.NewWeighted(int64(maximum)), fast: timeout / 2, max: maximum, limit: float64(initial), withheld: maximum - initial}
	c.permits.TryAcquire(int64(c.withheld))
	return c
}

// begin waits until a request may be sent. It returns the context's error if the context ends first.
func (c *concurrency) begin(ctx context.Context) error {
	if err := c.permits.Acquire(ctx, 1); err != nil {
		return err
	}
	c.mu.Lock()
	c.inFlight++
	c.mu.Unlock()
	return nil
}

// loadSign is what the end of a request shows about the load of the server.
type loadSign int

const (
	noSign     loadSign = iota // the request failed for another reason
	answered                   // the server answered
	overloaded                 // the server was too slow or too busy
)

// end ends a request that began at a time.
func (c *concurrency) end(began time.Time, sign loadSign) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	isFull := c.inFlight >= int(c.limit) // otherwise the answer says nothing about a higher limit
	switch {
	case sign == overloaded && began.After(c.reduced): // requests that began before the reduction had the old limit
		c.limit, c.reduced = max(c.limit/2, 1), now
	case sign == answered && isFull && now.Sub(began) <= c.fast:
		c.limit = min(c.limit+1/c.limit, float64(c.max))
	}
	c.inFlight--
	held := c.withheld + 1 // with the permit of this request
	c.withheld = min(held, c.max-int(c.limit))
	c.permits.Release(int64(held - c.withheld))
}

// current returns the limit, and the number of requests in flight.
func (c *concurrency) current() (limit, inFlight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.limit), c.inFlight
}

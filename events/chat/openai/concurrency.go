package openai

import (
	"context"
	"slices"
	"sync"
	"time"
)

// concurrency limits the requests in flight to a number that the server answers in time and at about the same speed as fewer. Requests beyond
// it wait here and not at the server, where those of the user's agents would wait behind them.
//
// After a window of answers at the limit, the limit rises by one if that has not made the answers slower. If the rise has made them slower, the
// server handles no more requests at a time, and the limit goes back for some windows. A timeout or a busy server halves it. (Package
// adaptivelimiter of failsafe-go ignores timeouts, and changes its limit ten times before it knows a trend: with a model of one slot it wastes a
// fifth of the requests.)
//
// Waiting requests get no turn during the pause that a busy server asks for, see pause. After a pause of more than maxRetryAfter, each of them is
// refused, and its call ends.
//
// Waiting requests of several callers take turns, so that the many tasks of a Generator do not keep the first reflection waiting.
type concurrency struct {
	fast time.Duration // the limit does not rise if the answers take longer
	max  int

	mu       sync.Mutex
	limit    int
	inFlight int
	reduced  time.Time // when an overload last halved the limit
	resumes  time.Time // end of the last pause

	answers int           // in the window
	sum     time.Duration // of the durations of these answers
	before  time.Duration // mean duration at the limit before the last rise; 0 after other changes
	hold    int           // number of windows without a rise

	waiting []*waiter // in the order of arrival
	turns   uint64
	served  map[*caller]uint64 // number of the last turn of each caller
}

// waiter is a request that waits for its turn.
type waiter struct {
	caller *caller
	ready  chan struct{} // closed at its turn
}

const (
	// windowFactor is the length of a window in answers, as a multiple of the limit.
	windowFactor = 2
	// slowerFactor is the growth of the mean duration that shows that a rise was useless. On a server of n slots a rise from n to n+1
	// makes each answer 1+1/n times slower.
	slowerFactor = 1.25
	// holdWindows is the number of windows after a useless rise until the next one.
	holdWindows = 8
)

func newConcurrency(initial, maximum int, timeout time.Duration) *concurrency {
	return &concurrency{fast: timeout / 2, max: maximum, limit: initial, served: make(map[*caller]uint64)}
}

// begin waits until a caller may send a request. It returns the context's error if the context ends first.
func (c *concurrency) begin(ctx context.Context, by *caller) error {
	w := &waiter{by, make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	c.admit()
	c.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else { // its turn came at the same time
		c.inFlight--
		c.admit()
	}
	return ctx.Err()
}

// pause keeps waiting requests from the server for a time. Otherwise each of them would be refused once, and use up an attempt of its call.
func (c *concurrency) pause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := time.Now().Add(d); until.After(c.resumes) {
		c.resumes = until
		time.AfterFunc(d, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.admit()
		})
	}
}

// admit gives turns to waiting requests up to the limit, unless there is a pause. The next turn is for the caller whose last turn is the longest ago.
func (c *concurrency) admit() {
	if time.Now().Before(c.resumes) {
		return
	}
	for c.inFlight < c.limit && len(c.waiting) > 0 {
		next := 0
		for i, w := range c.waiting {
			if c.served[w.caller] < c.served[c.waiting[next].caller] {
				next = i
			}
		}
		w := c.waiting[next]
		c.waiting = slices.Delete(c.waiting, next, next+1)
		c.turns++
		c.served[w.caller] = c.turns
		c.inFlight++
		close(w.ready)
	}
}

// loadSign is what the end of a request shows about the load of the server.
type loadSign int

const (
	noSign     loadSign = iota // the request failed for another reason, or was not sent
	answered                   // the server answered
	overloaded                 // the server was too slow or too busy
)

// end ends a request that began at a time.
func (c *concurrency) end(began time.Time, sign loadSign) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case sign == overloaded && began.After(c.reduced): // requests that began before the reduction had the old limit
		c.reduced = now
		c.setLimit(max(c.limit/2, 1))
	case sign == answered && c.inFlight >= c.limit: // otherwise the answer says nothing about a higher limit
		c.answers++
		c.sum += now.Sub(began)
		if c.answers >= windowFactor*c.limit {
			c.endWindow(c.sum / time.Duration(c.answers))
		}
	}
	c.inFlight--
	c.admit()
}

// endWindow changes the limit after a window of answers with this mean duration.
func (c *concurrency) endWindow(mean time.Duration) {
	isSlower := c.before > 0 && float64(mean) > slowerFactor*float64(c.before)
	switch {
	case isSlower:
		c.setLimit(c.limit - 1)
		c.hold = holdWindows
	case c.hold > 0 || c.limit == c.max || mean > c.fast:
		c.setLimit(c.limit)
		c.hold = max(c.hold-1, 0)
	default:
		c.setLimit(c.limit + 1)
		c.before = mean
	}
}

// setLimit begins a window with a limit.
func (c *concurrency) setLimit(limit int) {
	c.limit = limit
	c.answers, c.sum, c.before = 0, 0, 0
}

// current returns the limit, and the number of requests in flight.
func (c *concurrency) current() (limit, inFlight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit, c.inFlight
}

// reservation is a turn that a caller has before it makes its call, see Client.Reserve.
type reservation struct {
	server *server
	used   sync.Once
}

type reservationKey struct{}

// useReservation reports whether ctx has an unused turn at the server, which is then used.
func (s *server) useReservation(ctx context.Context) (ok bool) {
	r, _ := ctx.Value(reservationKey{}).(*reservation)
	if r != nil && r.server == s {
		r.used.Do(func() { ok = true })
	}
	return ok
}

// Reserve implements the method for [chat.Reserve]. The first request with the returned context uses the turn.
func (s *caller) Reserve(ctx context.Context) (context.Context, func(), error) {
	_, done := s.track(ctx)
	defer done()
	if err := s.concurrency.begin(ctx, s); err != nil {
		return ctx, func() {}, err
	}
	r := &reservation{server: s.server}
	release := func() { r.used.Do(func() { s.concurrency.end(time.Time{}, noSign) }) }
	return context.WithValue(ctx, reservationKey{}, r), release, nil
}

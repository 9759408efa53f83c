package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A stream of which a write failed answers no publisher any more. So that not every request waits for its time-out, a
// stream that has not acknowledged a publish is silent: for a second at a time one publish may try, the others fail at
// once. The silence ends with the first answer, or with a new connection.
const (
	// ackPatience is how long a publish waits for the acknowledgement.
	ackPatience = 5 * time.Second
	// tryEvery is how often a silent stream is tried.
	tryEvery = time.Second
	// fullFor is how long the refusal of a publish stands for the state of the server. Workers try again every second.
	fullFor = 10 * time.Second
)

// SilentError is returned when a stream does not acknowledge publishes. The event may have been stored.
type SilentError struct {
	Stream string
	Since  time.Time
	Err    error
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("stream %s has acknowledged no publish for %s: see the server's log; one whose disk was full has to be restarted after there is space (%v)",
		e.Stream, time.Since(e.Since).Round(time.Second), e.Err)
}
func (e *SilentError) Unwrap() error { return e.Err }

// RetryAfter is how long a producer should wait before it tries again.
func (e *SilentError) RetryAfter() time.Duration { return 5 * time.Second }

// store is the state of the server's store, as far as a connection knows it.
type store struct {
	mu     sync.Mutex
	closed error           // why it takes nothing, as the server in this process says; nil while it is open
	open   context.Context // ends when the store closes; nil before the first StoreClosed
	shut   context.CancelFunc
	silent map[string]*silence

	full   *FullError // of the last publish that the server refused for want of room; nil after one that it took
	fullAt time.Time
}

// silence is that of one stream.
type silence struct {
	SilentError
	reconnects uint64 // of the connection, when it began
	tried      time.Time
}

// StoreClosed notes why the server takes nothing new: then every publish fails with a *FullError at once, and those that
// wait for an acknowledgement with a *SilentError. Nil opens the store again.
func (c *Conn) StoreClosed(why error) {
	c.store.mu.Lock()
	was := c.store.closed
	c.store.closed = why
	switch {
	case why != nil && c.store.shut != nil:
		c.store.shut()
	case c.store.open == nil || c.store.open.Err() != nil:
		c.store.open, c.store.shut = context.WithCancel(context.Background())
	}
	c.store.mu.Unlock()
	switch {
	case why == nil && was != nil:
		c.log.Warn().Msg("the store is open again")
	case why != nil && was == nil:
		c.log.Error().Str("reason", why.Error()).Msg("the store is closed")
	}
}

// Store returns why nothing can be stored: a *FullError or a *SilentError, nil while all is well.
func (c *Conn) Store() error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.store.closed != nil {
		return &FullError{c.store.closed}
	}
	var longest *SilentError
	for _, s := range c.store.silent {
		if s.reconnects == c.nc.Stats().Reconnects && (longest == nil || s.Since.Before(longest.Since)) {
			longest = &s.SilentError
		}
	}
	switch {
	case longest != nil:
		return longest
	case c.store.full != nil && time.Since(c.store.fullAt) < fullFor:
		return c.store.full
	}
	return nil
}

// put publishes a message to a stream and waits for the acknowledgement.
func (c *Conn) put(ctx context.Context, stream string, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	open, err := c.mayPut(stream)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, ackPatience)
	defer cancel()
	if open != nil {
		defer context.AfterFunc(open, cancel)()
	}
	pub, err := c.js.PublishMsg(soon, msg, opts...)
	if err != nil && ctx.Err() == nil && soon.Err() != nil {
		err = nats.ErrTimeout
	}
	if err = asFull(err); full(err) {
		c.heard(nil) // that is an answer
	} else {
		c.heard(err)
	}
	return pub, c.answered(ctx, stream, err)
}

// mayPut returns the error of a publish that must not be sent. The context ends when the store closes; it is nil on
// connections without StoreClosed.
func (c *Conn) mayPut(stream string) (open context.Context, err error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.store.closed != nil {
		return nil, &FullError{c.store.closed}
	}
	s := c.store.silent[stream]
	if s == nil || s.reconnects != c.nc.Stats().Reconnects || time.Since(s.tried) >= tryEvery {
		if s != nil {
			s.tried = time.Now()
		}
		return c.store.open, nil
	}
	silent := s.SilentError
	return nil, &silent
}

// answered notes whether a stream answered a publish, and returns the publish's error.
func (c *Conn) answered(ctx context.Context, stream string, err error) error {
	silent := Unreachable(err) && !full(err) && c.nc.IsConnected()
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	switch {
	case ctx.Err() != nil: // the caller's own end says nothing
		return err
	case !silent:
		delete(c.store.silent, stream)
		c.store.full = nil
		if errors.As(err, &c.store.full) {
			c.store.fullAt = time.Now()
		}
		return err
	}
	s := c.store.silent[stream]
	if reconnects := c.nc.Stats().Reconnects; s == nil || s.reconnects != reconnects {
		if c.store.silent == nil {
			c.store.silent = make(map[string]*silence)
		}
		s = &silence{SilentError{Stream: stream, Since: time.Now()}, reconnects, time.Now()}
		c.store.silent[stream] = s
	}
	s.Err = err
	found := s.SilentError
	return &found
}

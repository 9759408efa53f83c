package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/redact"
)

// After a failed write, a stream may answer no publisher any more. Such a stream is silent. To avoid a timeout for
// every publish, only one publish each second is sent to a silent stream, and the other publishes fail at once. The stream is no
// longer silent after its first answer, or on a new connection.
const (
	// ackTimeout is how long a publish waits for its acknowledgement.
	ackTimeout = 5 * time.Second
	// silentRetry is the interval at which a publish to a silent stream is sent.
	silentRetry = time.Second
	// fullTTL is how long StoreError returns the error of a publish that found no room. Workers retry every second.
	fullTTL = 10 * time.Second
)

// noAckError is returned if a stream does not acknowledge publishes. The event may have been stored.
type noAckError struct {
	Stream string
	Since  time.Time
	Err    error
}

func (e *noAckError) Error() string {
	if errors.Is(e.Err, jetstream.ErrNoStreamResponse) {
		return fmt.Sprintf("stream %s does not answer: it has no leader or does not exist, or the account of this user does not import the subject: "+
			"run 'debrief doctor' with the user's key (%v)", e.Stream, e.Err)
	}
	return fmt.Sprintf("stream %s has not acknowledged a publish for %s: check the server's log; after a full disk, free space and restart the server (%v)",
		e.Stream, time.Since(e.Since).Round(time.Second), e.Err)
}
func (e *noAckError) Unwrap() error { return e.Err }

// RetryAfter returns how long a producer should wait before the next try.
func (e *noAckError) RetryAfter() time.Duration { return 5 * time.Second }

// storeState is the state of the server's storage, as far as the connection knows it.
type storeState struct {
	mu       sync.Mutex
	closed   error                     // why the server in this process accepts no messages; nil if it does
	failures map[string]*streamFailure // by the name of a stream: the streams whose last publish found no room or no answer
}

// streamFailure is the state of a stream that does not store publishes.
type streamFailure struct {
	err        error     // *FullError or *noAckError
	since, at  time.Time // of the first and of the last such publish
	reconnects uint64    // number of reconnects of the connection at since
}

// isCurrent reports whether a publish would still fail, as far as is known.
func (f *streamFailure) isCurrent(reconnects uint64) bool {
	if _, isSilent := errors.AsType[*noAckError](f.err); isSilent {
		return f.reconnects == reconnects
	}
	return time.Since(f.at) < fullTTL
}

// SetStoreClosed sets why the server accepts no new messages. Then every publish fails at once with a *FullError. Nil means that the
// server accepts messages again.
func (c *Conn) SetStoreClosed(reason error) {
	s := &c.publisher.storeState
	s.mu.Lock()
	before := s.closed
	s.closed = reason
	s.mu.Unlock()
	switch {
	case reason == nil && before != nil:
		c.log.Warn().Msg("the server accepts new messages again")
	case reason != nil && before == nil:
		c.log.Error().Str("reason", reason.Error()).Msg("the server accepts no new messages")
	}
}

// StoreError returns why messages cannot be stored, as a *FullError or a *noAckError. It returns nil if they can.
func (c *Conn) StoreError() error {
	s := &c.publisher.storeState
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return &FullError{s.closed}
	}
	var oldest *streamFailure
	for _, f := range s.failures {
		isOlder := oldest == nil || f.since.Before(oldest.since)
		if isOlder && f.isCurrent(c.nc.Stats().Reconnects) {
			oldest = f
		}
	}
	if oldest == nil {
		return nil
	}
	return oldest.err
}

// publishMsg publishes a message and waits for the acknowledgement of its stream.
func (p *publisher) publishMsg(ctx context.Context, stream string, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if err := p.checkStore(stream); err != nil {
		return nil, err
	}
	ackCtx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	pub, err := p.js.PublishMsg(ackCtx, msg, opts...)
	if err != nil && ctx.Err() == nil && ackCtx.Err() != nil {
		err = nats.ErrTimeout
	}
	if isFull(err) {
		p.recordAnswer(nil) // the server has answered
	} else {
		p.recordAnswer(err)
	}
	return pub, p.recordPublish(ctx, stream, asFull(err))
}

// checkStore returns an error if a publish must not be sent.
func (p *publisher) checkStore(stream string) error {
	s := &p.storeState
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return &FullError{s.closed}
	}
	f := s.failures[stream]
	if f == nil {
		return nil
	}
	_, isSilent := errors.AsType[*noAckError](f.err)
	if isSilent && f.isCurrent(p.nc.Stats().Reconnects) && time.Since(f.at) < silentRetry {
		return f.err
	}
	f.at = time.Now()
	return nil
}

// recordPublish records whether a stream stored a publish or refused it, and returns the error of the publish.
func (p *publisher) recordPublish(ctx context.Context, stream string, err error) error {
	s := &p.storeState
	s.mu.Lock()
	defer s.mu.Unlock()
	_, isFull := errors.AsType[*FullError](err)
	isSilent := !isFull && Unreachable(err) && p.nc.IsConnected()
	switch {
	case ctx.Err() != nil: // the caller has cancelled: no information
		return err
	case !isFull && !isSilent:
		delete(s.failures, stream)
		return err
	}
	f, reconnects := s.failures[stream], p.nc.Stats().Reconnects
	if f == nil || f.reconnects != reconnects {
		f = &streamFailure{since: time.Now(), reconnects: reconnects}
		s.failures[stream] = f
	}
	if isSilent {
		err = &noAckError{Stream: stream, Since: f.since, Err: err}
	}
	f.err, f.at = err, time.Now()
	return err
}

// If a server disappears with its machine or its network, the connection still looks open. By default the client pings
// it every 2 minutes and reconnects after the third missing answer. With these values it connects to another server of
// the cluster after 6 to 9 seconds, about the time that a cluster needs to elect a leader.
const (
	PingInterval = 3 * time.Second
	MaxPings     = 2
)

// outage is a time without an answer from JetStream.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero after the last answer
}

// recordAnswer records the error of a JetStream request. A server that is cut off from its cluster keeps its clients
// but cannot serve them. After Policy.ReconnectAfter without an answer, the connection changes to the next known
// server, or reconnects to the only one.
func (p *publisher) recordAnswer(err error) {
	silent := Unreachable(err) || errors.Is(err, context.DeadlineExceeded)
	now := time.Now()
	p.outage.mu.Lock()
	defer p.outage.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled): // no information
	case !silent, !p.nc.IsConnected(): // a disconnected client already looks for another server
		p.outage.since = time.Time{}
	case p.outage.since.IsZero():
		p.outage.since = now
	case now.Sub(p.outage.since) >= p.policy.ReconnectAfter:
		p.outage.since = now
		p.log.Warn().Err(err).Str("server", redact.Address(p.nc.ConnectedUrl())).Msg("JetStream does not answer through this server: connecting to another one")
		_ = p.nc.ForceReconnect() // fails only on a closed connection
	}
}

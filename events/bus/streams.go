package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// ensure creates the streams that a role uses and that do not exist. It keeps the configuration of an existing stream,
// but returns an error if the role cannot work with it.
func (c *Conn) ensure(ctx context.Context, role string, replicas int) error {
	only := streams.Required(role)
	for _, want := range streams.All(replicas) {
		if only != nil && !slices.Contains(only, want.Name) {
			continue
		}
		var s jetstream.Stream
		err := retryUnanswered(ctx, func(ctx context.Context) (err error) {
			s, err = c.js.Stream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				s, err = c.js.CreateStream(ctx, want)
				if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created by another client meanwhile
					s, err = c.js.Stream(ctx, want.Name)
				}
				err = explainMissing("stream "+want.Name, asUnsuitable(err))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("open stream %s: %w", want.Name, err)
		}
		if err := streams.Check(s.CachedInfo().Config, want); err != nil {
			return err
		}
	}
	err := retryUnanswered(ctx, func(ctx context.Context) error {
		_, err := c.js.ObjectStore(ctx, events.BucketBlobs)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			_, err = c.js.CreateObjectStore(ctx, streams.BlobStore(replicas))
			if errors.Is(err, jetstream.ErrBucketExists) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created by another client meanwhile
				err = nil
			}
			err = explainMissing("object store "+events.BucketBlobs, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("open object store %s: %w", events.BucketBlobs, err)
	}
	return nil
}

// explainMissing adds the remedy if this user may not create a missing object.
func explainMissing(object string, err error) error {
	if denied.Is(err) {
		return fmt.Errorf("create %s: not permitted for this user: run 'debrief setup' as the operator (%w)", object, err)
	}
	return err
}

// CreateDurables creates the missing durable consumers of all roles, so that the roles need no right to do so.
func (c *Conn) CreateDurables(ctx context.Context) error {
	for _, role := range streams.Roles {
		if _, err := c.openConsumer(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// requestTimeout bounds one request of retryUnanswered. requestPause is the pause before the next.
const requestTimeout, requestPause = 2 * time.Second, 100 * time.Millisecond

// retryUnanswered repeats a request until it is answered or ctx ends. A cluster without a leader drops requests, or
// answers that it is unavailable.
func retryUnanswered(ctx context.Context, request func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, requestTimeout)
		err := request(try)
		cancel()
		unanswered := errors.Is(err, context.DeadlineExceeded) || Unreachable(err)
		if ctx.Err() != nil || !unanswered || noJetStream(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(requestPause):
		}
	}
}

// WindowHistory is the number of interactions that the server keeps of a session. It is the largest window size.
const WindowHistory = streams.WindowHistory

// subjectOverlap is the server's error code if another stream already has one of the subjects.
const subjectOverlap jetstream.ErrorCode = 10065

// asUnsuitable returns the error of a create as an *streams.ConfigError if another stream has the subjects.
func asUnsuitable(err error) error {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && api.ErrorCode == subjectOverlap {
		return &streams.ConfigError{Err: err}
	}
	return err
}

// durableConfig returns the configuration of a role's durable.
func (c *Conn) durableConfig(role string) jetstream.ConsumerConfig {
	want := jetstream.ConsumerConfig{
		Durable: role, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.policy.AckWait, MaxDeliver: streams.MaxDeliver, MaxAckPending: c.policy.MaxAckPending,
	}
	if role == events.RoleCurator {
		want.MaxAckPending = c.policy.MaxAckPendingCurator
	}
	return want
}

// openConsumer opens the durable of a role. It creates it if it is missing, and updates it if the policy differs.
func (c *Conn) openConsumer(ctx context.Context, role string) (jetstream.Consumer, error) {
	want := c.durableConfig(role)
	cons, err := c.js.Consumer(ctx, streams.Input(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cons, err = c.js.CreateOrUpdateConsumer(ctx, streams.Input(role), want)
		err = explainMissing("the consumer", err)
	} else if err == nil {
		got := cons.CachedInfo().Config
		if got.AckWait != want.AckWait || got.MaxDeliver != want.MaxDeliver || got.MaxAckPending != want.MaxAckPending {
			got.AckWait, got.MaxDeliver, got.MaxAckPending = want.AckWait, want.MaxDeliver, want.MaxAckPending
			var changed jetstream.Consumer
			changed, err = c.js.UpdateConsumer(ctx, streams.Input(role), got)
			if denied.Is(err) {
				c.log.Warn().Str("role", role).Msg("the consumer's policy differs, and this user may not change it: run 'debrief setup' as the operator")
				return cons, nil
			}
			cons = changed
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", role, streams.Input(role), natserr.AsTimeout(ctx, err))
	}
	return cons, nil
}

// Lag describes how far a role is behind.
type Lag struct {
	Pending     uint64 `json:"pending"`      // not delivered yet
	InFlight    int    `json:"in_flight"`    // delivered, not acknowledged
	Redelivered int    `json:"redelivered"`  // of those, more than once
	Floor       uint64 `json:"ack_floor"`    // all messages up to this stream sequence are acknowledged
	Last        uint64 `json:"last_handled"` // highest stream sequence that was delivered
}

// Idle reports whether no message is pending or in flight.
func (l Lag) Idle() bool { return l.Pending == 0 && l.InFlight == 0 }

// Lag returns the lag of a role. If the role never ran, all messages of its stream are pending.
func (c *Conn) Lag(ctx context.Context, role string) (Lag, error) {
	cons, err := c.js.Consumer(ctx, streams.Input(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		s, err := c.js.Stream(ctx, streams.Input(role))
		if err != nil {
			return Lag{}, fmt.Errorf("read stream %s: %w", streams.Input(role), natserr.AsTimeout(ctx, err))
		}
		return Lag{Pending: s.CachedInfo().State.Msgs}, nil
	}
	if err != nil {
		return Lag{}, fmt.Errorf("read consumer %s: %w", role, natserr.AsTimeout(ctx, err))
	}
	return lagOf(cons.CachedInfo()), nil
}

// Idle reports whether a role has acknowledged all messages of its stream. The pending count of a consumer may lack the
// newest messages, so Idle compares the last delivered sequence with the end of the stream.
func (c *Conn) Idle(ctx context.Context, role string) (bool, error) {
	s, err := c.js.Stream(ctx, streams.Input(role))
	if err != nil {
		return false, fmt.Errorf("read stream %s: %w", streams.Input(role), natserr.AsTimeout(ctx, err))
	}
	end := s.CachedInfo().State
	l, err := c.Lag(ctx, role)
	return err == nil && l.Idle() && (l.Last >= end.LastSeq || end.Msgs == 0), err
}

func lagOf(i *jetstream.ConsumerInfo) Lag {
	return Lag{i.NumPending, i.NumAckPending, i.NumRedelivered, i.AckFloor.Stream, i.Delivered.Stream}
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/blob"
	"debrief/events/denied"
	"debrief/events/streams"
)

// ErrNoStreams is returned by a read-only Open if the server has no stream of Debrief.
var ErrNoStreams = errors.New("the server has no streams of Debrief")

// ensure creates the streams that a role uses and that do not exist, unless the connection is read-only. It keeps the
// configuration of an existing stream, but returns an error if the role cannot work with it.
func (c *Conn) ensure(ctx context.Context, o Options) error {
	only, replicas, exist := streams.Required(o.Role), max(o.Replicas, 1), 0
	for _, want := range append(streams.All(replicas), streams.Blobs(replicas)) {
		if only != nil && want.Name != blob.Stream && !slices.Contains(only, want.Name) {
			continue
		}
		s, err := c.ensureStream(ctx, want, o.ReadOnly)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", want.Name, err)
		}
		if s == nil {
			continue
		}
		exist++
		err = streams.Check(s.CachedInfo().Config, want)
		if unsuitable := (*streams.ConfigError)(nil); errors.As(err, &unsuitable) {
			switch {
			case unsuitable.Field == streams.FieldSealed && o.ReadOnly:
				err = nil
			case unsuitable.Field == streams.FieldRollup && only == nil && !o.ReadOnly:
				err = c.forbidRollup(ctx, s.CachedInfo().Config)
			}
		}
		if err != nil {
			return err
		}
	}
	if o.ReadOnly && exist == 0 {
		return ErrNoStreams
	}
	return nil
}

// ensureStream returns a stream, which it creates if it does not exist. A missing stream is nil if the connection is read-only.
func (c *Conn) ensureStream(ctx context.Context, want jetstream.StreamConfig, readOnly bool) (s jetstream.Stream, err error) {
	err = retryUnanswered(ctx, func(ctx context.Context) (err error) {
		s, err = c.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) && readOnly {
			s, err = nil, nil
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s, err = c.js.CreateStream(ctx, want)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created by another client meanwhile
				s, err = c.js.Stream(ctx, want.Name)
			}
			err = explainMissing("stream "+want.Name, asUnsuitable(want.Name, err))
		}
		return err
	})
	return s, err
}

// forbidRollup forbids rollups in a stream with this configuration. See streams.All.
func (c *Conn) forbidRollup(ctx context.Context, cfg jetstream.StreamConfig) error {
	cfg.AllowRollup = false
	if _, err := c.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("forbid rollups in stream %s: %w", cfg.Name, err)
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

// asUnsuitable returns the error of the creation of a stream as an *streams.ConfigError if another stream has the subjects.
func asUnsuitable(stream string, err error) error {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && api.ErrorCode == subjectOverlap {
		return &streams.ConfigError{Stream: stream, Err: err}
	}
	return err
}

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
	"debrief/events/streams"
)

// ErrNoStreams is returned by a read-only Open if the server has no stream of Debrief.
var ErrNoStreams = errors.New("the server has no streams of Debrief")

// ensure creates the streams that a role uses and that do not exist, unless the connection is read-only. It keeps the
// configuration of an existing stream, but returns an error if the role cannot work with it.
func (c *Conn) ensure(ctx context.Context, o Options) error {
	only, replicas, exist := streams.Required(o.Role), max(o.Replicas, 1), 0
	for _, want := range streams.All(replicas) {
		if only != nil && !slices.Contains(only, want.Name) {
			continue
		}
		var s jetstream.Stream
		err := retryUnanswered(ctx, func(ctx context.Context) (err error) {
			s, err = c.js.Stream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) && o.ReadOnly {
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
		if err != nil {
			return fmt.Errorf("open stream %s: %w", want.Name, err)
		}
		if s == nil {
			continue
		}
		exist++
		if err := streams.Check(s.CachedInfo().Config, want); err != nil {
			return err
		}
	}
	switch {
	case o.ReadOnly && exist == 0:
		return ErrNoStreams
	case o.ReadOnly:
		return nil
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

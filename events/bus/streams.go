package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// ensure creates the streams that a role uses and that do not exist, unless the connection is read-only. It keeps the
// configuration of an existing stream, but returns an error if the role cannot work with it.
func (c *Conn) ensure(ctx context.Context, o Options) error {
	required := streams.Required(o.Role) // nil: all streams
	found := 0
	for _, want := range streams.All(max(o.Replicas, 1)) {
		isUsed := required == nil || slices.Contains(required, want.Name) || want.Name == blob.Stream // every role uses blobs
		if !isUsed {
			continue
		}
		var s jetstream.Stream
		err := retryUnanswered(ctx, func(ctx context.Context) (err error) {
			s, err = c.openOrCreate(ctx, want, o.ReadOnly)
			return err
		})
		if o.ReadOnly && errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open stream %s: %w", want.Name, err)
		}
		found++
		err = streams.Check(s.CachedInfo().Config, want)
		unsuitable, ok := errors.AsType[*streams.ConfigError](err)
		canRead := ok && o.ReadOnly && unsuitable.Field == streams.FieldSealed
		if err != nil && !canRead {
			return err
		}
	}
	if o.ReadOnly && found == 0 {
		return natserr.ErrNoStreams
	}
	return nil
}

// openOrCreate opens a stream. It creates a missing stream, unless the connection is read-only.
func (c *Conn) openOrCreate(ctx context.Context, want jetstream.StreamConfig, readOnly bool) (jetstream.Stream, error) {
	s, err := c.js.Stream(ctx, want.Name)
	if readOnly || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, err
	}
	s, err = c.js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created by another client meanwhile
		s, err = c.js.Stream(ctx, want.Name)
	}
	return s, explainMissing("stream "+want.Name, asUnsuitable(want.Name, err))
}

// ErrRestoring is returned by CheckRestored for a server on which the restore of a backup was interrupted, or still runs.
var ErrRestoring = errors.New("the restore of a backup is incomplete, so streams are missing: repeat 'debrief backup restore DIR --replace'")

// CheckRestored returns ErrRestoring if a server has a part of the streams of a backup; see streams.MetadataRestoring.
func CheckRestored(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, streams.Attempts)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read stream %s: %w", streams.Attempts, err)
	case s.CachedInfo().Config.Metadata[streams.MetadataRestoring] != "":
		return ErrRestoring
	}
	return nil
}

// explainMissing adds the remedy if this user may not create a missing object.
func explainMissing(object string, err error) error {
	if natserr.IsDenied(err) {
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
		if !unanswered || noJetStream(err) || events.Sleep(ctx, requestPause) != nil {
			return err
		}
	}
}

// StreamState describes the size of a stream.
type StreamState struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Last     uint64 `json:"last_seq"`

	Replicas  int `json:"replicas"`
	Consumers int `json:"consumers"`

	// Limits; 0 means no limit. A stream at MaxBytes refuses new messages; a cache at MaxMessages drops its oldest ones.
	MaxAge      time.Duration `json:"max_age_ns"`
	MaxBytes    uint64        `json:"max_bytes"`
	MaxMessages uint64        `json:"max_messages"`
	Oldest      time.Time     `json:"oldest_at,omitzero"` // when the oldest message was stored; zero without one
}

// Used returns the largest share of a limit of the size that is in use, from 0 to 1. It is 0 without such a limit.
func (s StreamState) Used() float64 {
	used := 0.0
	if s.MaxBytes > 0 {
		used = float64(s.Bytes) / float64(s.MaxBytes)
	}
	if s.MaxMessages > 0 {
		used = max(used, float64(s.Messages)/float64(s.MaxMessages))
	}
	return used
}

// Streams returns the state of every stream and bucket that exists.
func (c *Conn) Streams(ctx context.Context) ([]StreamState, error) {
	var all []StreamState
	for _, want := range streams.All(1) {
		i, err := c.streamInfo(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		cfg, st := i.Config, i.State
		state := StreamState{
			Name: want.Name, Messages: st.Msgs, Bytes: st.Bytes, Last: st.LastSeq, Replicas: cfg.Replicas, Consumers: st.Consumers,
			MaxAge: cfg.MaxAge, MaxBytes: uint64(max(cfg.MaxBytes, 0)), MaxMessages: uint64(max(cfg.MaxMsgs, 0)),
		}
		if st.Msgs > 0 {
			state.Oldest = st.FirstTime
		}
		all = append(all, state)
	}
	return all, nil
}

// CheckStreams requests the state of each stream that a running role of this connection needs. It returns the errors by role: a role
// whose streams all answer has none. A server with a damaged stream can accept connections and not answer requests to the stream.
func (c *Conn) CheckStreams(ctx context.Context) map[string]error {
	var mu sync.Mutex // guards failed
	failed := map[string]error{}
	var requests sync.WaitGroup
	for _, h := range c.Health.Roles() {
		if h.State == Stopped {
			continue
		}
		for _, name := range streams.Required(h.Role) {
			requests.Go(func() {
				_, err := c.streamInfo(ctx, name)
				if err == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				failed[h.Role] = err
			})
		}
	}
	requests.Wait()
	return failed
}

// subjectOverlap is the server's error code if another stream already has one of the subjects.
const subjectOverlap jetstream.ErrorCode = 10065

// asUnsuitable returns the error of the creation of a stream as an *streams.ConfigError if another stream has the subjects.
func asUnsuitable(stream string, err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == subjectOverlap {
		return &streams.ConfigError{Stream: stream, Err: err}
	}
	return err
}

// PlanStreams returns the steps from the streams of the server to the chosen limits. It changes nothing. See streams.Plan.
func PlanStreams(ctx context.Context, c *Conn, replicas int, chosen []streams.Setting) ([]streams.Step, error) {
	var existing []*jetstream.StreamInfo
	for _, want := range streams.All(1) {
		err := retryUnanswered(ctx, func(ctx context.Context) error {
			s, err := c.js.Stream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil
			}
			if err == nil {
				existing = append(existing, s.CachedInfo())
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", want.Name, natserr.AsTimeout(ctx, err))
		}
	}
	return streams.Plan(max(replicas, 1), existing, chosen)
}

// ApplySteps changes streams as PlanStreams has planned it after Open has created all of them.
func ApplySteps(ctx context.Context, c *Conn, steps []streams.Step) error {
	for _, step := range streams.InOrder(steps) {
		err := retryUnanswered(ctx, func(ctx context.Context) error {
			_, err := c.js.UpdateStream(ctx, step.Config)
			return err
		})
		if err != nil {
			return fmt.Errorf("set the limits of stream %s: %w", step.Stream, explainReserve(natserr.AsTimeout(ctx, err)))
		}
	}
	return nil
}

// explainReserve adds the remedy if the server has no room for a size limit.
func explainReserve(err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && (api.ErrorCode == StorageFull || api.ErrorCode == AccountFull) {
		return fmt.Errorf("the server reserves the size limits of all streams, and they exceed its store (max_file; 'debrief up --max-store'): choose smaller ones, or 0 for no limit (%w)", err)
	}
	return err
}

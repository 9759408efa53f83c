package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// Retention of the streams and buckets, and the window in which the server drops duplicates.
const (
	keepEvents   = 30 * 24 * time.Hour // executions and reflections
	keepDead     = 7 * 24 * time.Hour
	keepBlobs    = keepEvents + 24*time.Hour // at least as long as any message that refers to a blob
	keepWindows  = keepEvents                // since the last turn of a session
	keepContexts = 7 * 24 * time.Hour        // agents report within this time
	keepVectors  = keepEvents                // the texts have expired by then
	keepAttempts = keepEvents                // at least as long as a message can be redelivered
	duplicates   = 2 * time.Minute
)

// Limits of the cache buckets, in messages. At the limit the server drops the oldest ones, of any key. It needs about
// 0.3 KB of memory for each key, so these limits also bound its memory, at 0.3 GB in all. There are no limits in bytes,
// because a server reserves the bytes that a stream may use.
const (
	maxWindows  = 400_000 // interactions and notes: 10,000 sessions with full windows of both
	maxContexts = 250_000
	maxVectors  = 250_000
)

// boundedCache limits a stream to a number of messages, of which it keeps the newest.
func boundedCache(s jetstream.StreamConfig, messages int64) jetstream.StreamConfig {
	s.Discard, s.MaxMsgs = jetstream.DiscardOld, messages
	return s
}

// WindowHistory is the number of interactions that the server keeps of a session. It is the largest window size.
const WindowHistory = 20

// streams returns the configurations of all streams and key-value buckets, as Open creates them.
func streams(replicas int) []jetstream.StreamConfig {
	all := []jetstream.StreamConfig{
		{
			Name: events.StreamTasks, Description: "tasks that wait for a generator",
			Subjects: []string{events.KindTask.Subject("")}, Retention: jetstream.WorkQueuePolicy,
		},
		{
			Name: events.StreamExecutions, Description: "executions, and later feedback on them",
			Subjects: []string{events.KindExecution.Subject(""), events.KindFeedback.Subject("")}, MaxAge: keepEvents,
		},
		{
			Name: events.StreamReflections, Description: "reflections on executions, and edits by operators",
			Subjects: []string{events.KindReflection.Subject(""), events.KindEdit.Subject("")}, MaxAge: keepEvents,
		},
		{
			Name: events.StreamDeltas, Description: "the changes of the playbooks: the source of truth",
			// Only the operator may delete stray deltas, one by one (deltalog.RemoveStrays).
			Subjects: []string{events.KindDelta.Subject("")}, DenyPurge: true,
		},
		{
			// Each letter has its own subject. To withdraw it, a worker replaces it by a message that expires.
			Name: events.StreamDead, Description: "dead letters",
			Subjects: []string{events.DeadSubject("", "")}, MaxAge: keepDead, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
		},
		{
			// A key-value bucket by its subjects and headers. It is created as a stream, because CreateKeyValue cannot
			// allow atomic batches, and UpdateKeyValue disables them.
			Name: "KV_" + events.BucketPlaybook, Description: "the current playbooks: a view of " + events.StreamDeltas,
			Subjects: []string{"$KV." + events.BucketPlaybook + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, AllowAtomicPublish: true,
		},
		boundedCache(jetstream.StreamConfig{
			// The server drops the oldest interaction of a key, so that no client reads, changes and rewrites a list.
			Name: "KV_" + events.BucketWindow, Description: "the last interactions of sessions and the last reflections of books",
			Subjects: []string{"$KV." + events.BucketWindow + ".>"}, MaxMsgsPerSubject: WindowHistory, AllowRollup: true,
			DenyDelete: true, MaxAge: keepWindows,
		}, maxWindows),
		boundedCache(jetstream.StreamConfig{
			Name: "KV_" + events.BucketContexts, Description: "served contexts, until their executions are reported",
			Subjects: []string{"$KV." + events.BucketContexts + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, MaxAge: keepContexts,
		}, maxContexts),
		boundedCache(jetstream.StreamConfig{
			Name: "KV_" + events.BucketVectors, Description: "embeddings of texts, by model and text",
			Subjects: []string{"$KV." + events.BucketVectors + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, MaxAge: keepVectors,
		}, maxVectors),
		{
			Name: "KV_" + events.BucketRuns, Description: "runs over data sets, and their progress",
			Subjects: []string{"$KV." + events.BucketRuns + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true,
		},
		{
			Name: attemptsStream, Description: "numbers of attempts, by role and message",
			Subjects: []string{"$KV." + events.BucketAttempts + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, MaxAge: keepAttempts,
		},
	}
	for i := range all {
		all[i].Storage = jetstream.FileStorage
		if all[i].MaxMsgs == 0 {
			all[i].Discard = jetstream.DiscardNew // producers of a full stream get an error
		}
		all[i].Replicas = replicas
		all[i].Duplicates = duplicates
		all[i].AllowDirect = true
	}
	return all
}

// requiredStreams returns the names of the streams that a role needs, or nil for all.
func requiredStreams(role string) []string {
	names := map[string][]string{
		events.RoleGenerator: {"KV_" + events.BucketPlaybook, "KV_" + events.BucketWindow, "KV_" + events.BucketContexts, "KV_" + events.BucketVectors},
		events.RoleReflector: {"KV_" + events.BucketWindow, events.StreamTasks},
		events.RoleCurator:   {events.StreamDeltas, "KV_" + events.BucketPlaybook},
	}[role]
	if names == nil {
		return nil
	}
	return append(names, inputStream(role), outputStream(role), events.StreamDead, attemptsStream)
}

// ensure creates the streams that a role uses and that do not exist. It keeps the configuration of an existing stream,
// but returns an error if the role cannot work with it.
func (c *Conn) ensure(ctx context.Context, role string, replicas int) error {
	only := requiredStreams(role)
	for _, want := range streams(replicas) {
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
		if err := checkStream(s.CachedInfo().Config, want); err != nil {
			return err
		}
	}
	err := retryUnanswered(ctx, func(ctx context.Context) error {
		_, err := c.js.ObjectStore(ctx, events.BucketBlobs)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			_, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
				Bucket: events.BucketBlobs, Description: "payloads too large for a message", TTL: keepBlobs, Replicas: replicas,
			})
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
	if isDenied(err) {
		return fmt.Errorf("create %s: not permitted for this user: run 'debrief setup' as the operator (%w)", object, err)
	}
	return err
}

// CreateDurables creates the missing durable consumers of all roles, so that the roles need no right to do so.
func (c *Conn) CreateDurables(ctx context.Context) error {
	for _, role := range roles {
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

// StreamConfigError is returned if the configuration of a stream does not fit. Only an operator may change it.
type StreamConfigError struct{ Err error }

func (e *StreamConfigError) Error() string { return e.Err.Error() }
func (e *StreamConfigError) Unwrap() error { return e.Err }

// subjectOverlap is the server's error code if another stream already has one of the subjects.
const subjectOverlap jetstream.ErrorCode = 10065

// asUnsuitable returns the error of a create as an *StreamConfigError if another stream has the subjects.
func asUnsuitable(err error) error {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && api.ErrorCode == subjectOverlap {
		return &StreamConfigError{err}
	}
	return err
}

// checkStream compares a stream with the wanted configuration. It returns an *StreamConfigError if the stream does not
// fit.
func checkStream(got, want jetstream.StreamConfig) error {
	mismatch := func(format string, args ...any) error {
		return &StreamConfigError{fmt.Errorf("stream %s "+format, append([]any{got.Name}, args...)...)}
	}
	for _, s := range want.Subjects {
		if !slices.Contains(got.Subjects, s) {
			return mismatch("lacks subject %s: created by another program", s)
		}
	}
	switch {
	case got.Retention != want.Retention:
		return mismatch("has retention %s, want %s: created by another program", got.Retention, want.Retention)
	case want.AllowAtomicPublish && !got.AllowAtomicPublish:
		return mismatch("does not allow atomic batches: set allow_atomic")
	case want.AllowRollup && !got.AllowRollup:
		return mismatch("does not allow rollups: set allow_rollup_hdrs")
	case want.AllowMsgTTL && !got.AllowMsgTTL:
		return mismatch("does not allow messages that expire: set allow_msg_ttl")
	case want.AllowMsgTTL && got.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return mismatch("keeps %d messages of a subject, want %d: set max_msgs_per_subject", got.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	case !got.AllowDirect:
		return mismatch("does not allow direct gets: set allow_direct")
	}
	return nil
}

// streamOf returns the stream of a kind of event.
func streamOf(k events.Kind) string {
	switch k {
	case events.KindTask:
		return events.StreamTasks
	case events.KindExecution, events.KindFeedback:
		return events.StreamExecutions
	case events.KindReflection, events.KindEdit:
		return events.StreamReflections
	case events.KindDelta:
		return events.StreamDeltas
	}
	return events.StreamDead
}

// inputStream returns the stream that a role consumes.
func inputStream(role string) string {
	switch role {
	case events.RoleGenerator:
		return events.StreamTasks
	case events.RoleReflector:
		return events.StreamExecutions
	}
	return events.StreamReflections
}

// roles are the roles with a durable.
var roles = []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator}

// unlimited is MaxDeliver of every durable, because the worker counts the attempts. A server that stops redelivering a
// message only publishes an advisory once, and without that advisory the message is lost.
const unlimited = -1

// durableConfig returns the configuration of a role's durable.
func (c *Conn) durableConfig(role string) jetstream.ConsumerConfig {
	want := jetstream.ConsumerConfig{
		Durable: role, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.policy.AckWait, MaxDeliver: unlimited, MaxAckPending: c.policy.MaxAckPending,
	}
	if role == events.RoleCurator {
		want.MaxAckPending = c.policy.MaxAckPendingCurator
	}
	return want
}

// openConsumer opens the durable of a role. It creates it if it is missing, and updates it if the policy differs.
func (c *Conn) openConsumer(ctx context.Context, role string) (jetstream.Consumer, error) {
	want := c.durableConfig(role)
	cons, err := c.js.Consumer(ctx, inputStream(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cons, err = c.js.CreateOrUpdateConsumer(ctx, inputStream(role), want)
		err = explainMissing("the consumer", err)
	} else if err == nil {
		got := cons.CachedInfo().Config
		if got.AckWait != want.AckWait || got.MaxDeliver != want.MaxDeliver || got.MaxAckPending != want.MaxAckPending {
			got.AckWait, got.MaxDeliver, got.MaxAckPending = want.AckWait, want.MaxDeliver, want.MaxAckPending
			var changed jetstream.Consumer
			changed, err = c.js.UpdateConsumer(ctx, inputStream(role), got)
			if isDenied(err) {
				c.log.Warn().Str("role", role).Msg("the consumer's policy differs, and this user may not change it: run 'debrief setup' as the operator")
				return cons, nil
			}
			cons = changed
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", role, inputStream(role), asTimeout(ctx, err))
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
	cons, err := c.js.Consumer(ctx, inputStream(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		s, err := c.js.Stream(ctx, inputStream(role))
		if err != nil {
			return Lag{}, fmt.Errorf("read stream %s: %w", inputStream(role), asTimeout(ctx, err))
		}
		return Lag{Pending: s.CachedInfo().State.Msgs}, nil
	}
	if err != nil {
		return Lag{}, fmt.Errorf("read consumer %s: %w", role, asTimeout(ctx, err))
	}
	return lagOf(cons.CachedInfo()), nil
}

// Idle reports whether a role has acknowledged all messages of its stream. The pending count of a consumer may lack the
// newest messages, so Idle compares the last delivered sequence with the end of the stream.
func (c *Conn) Idle(ctx context.Context, role string) (bool, error) {
	s, err := c.js.Stream(ctx, inputStream(role))
	if err != nil {
		return false, fmt.Errorf("read stream %s: %w", inputStream(role), asTimeout(ctx, err))
	}
	end := s.CachedInfo().State
	l, err := c.Lag(ctx, role)
	return err == nil && l.Idle() && (l.Last >= end.LastSeq || end.Msgs == 0), err
}

func lagOf(i *jetstream.ConsumerInfo) Lag {
	return Lag{i.NumPending, i.NumAckPending, i.NumRedelivered, i.AckFloor.Stream, i.Delivered.Stream}
}

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

// Ages of what is kept, and the server's window for dropping a second copy.
const (
	keepEvents   = 30 * 24 * time.Hour // executions and reflections
	keepDead     = 7 * 24 * time.Hour
	keepBlobs    = keepEvents + 24*time.Hour // at least as long as whatever refers to one
	keepWindows  = keepEvents                // of a session without new turns
	keepContexts = 7 * 24 * time.Hour        // an agent reports within it
	keepVectors  = keepEvents                // the embedded texts have expired by then
	keepAttempts = keepEvents                // at least as long as a message is redelivered
	duplicates   = 2 * time.Minute
)

// Bounds of the buckets that are caches, in values. At its bound the oldest values go first, of whatever key. The server
// holds some 0.3 KB of memory for each key, so these bound its memory as well, at 0.3 GB in all. They are not in bytes,
// because a server sets aside the bytes that a stream may take.
const (
	maxWindows  = 400_000 // interactions and notes: 10,000 sessions with full windows of both
	maxContexts = 250_000
	maxVectors  = 250_000
)

// cached bounds a stream by messages. Past the bound it drops the oldest ones.
func cached(s jetstream.StreamConfig, messages int64) jetstream.StreamConfig {
	s.Discard, s.MaxMsgs = jetstream.DiscardOld, messages
	return s
}

// WindowHistory is how many interactions the server keeps of a session: the largest window there is.
const WindowHistory = 20

// streams is every stream, as it is created on a server that does not have it.
func streams(replicas int) []jetstream.StreamConfig {
	all := []jetstream.StreamConfig{
		{
			Name: events.StreamTasks, Description: "tasks that wait for a generator",
			Subjects: []string{events.KindTask.Subject("")}, Retention: jetstream.WorkQueuePolicy,
		},
		{
			Name: events.StreamExecutions, Description: "finished attempts and later feedback on them",
			Subjects: []string{events.KindExecution.Subject(""), events.KindFeedback.Subject("")}, MaxAge: keepEvents,
		},
		{
			Name: events.StreamReflections, Description: "what reflectors made of executions, and people's edits",
			Subjects: []string{events.KindReflection.Subject(""), events.KindEdit.Subject("")}, MaxAge: keepEvents,
		},
		{
			Name: events.StreamDeltas, Description: "the playbooks, change by change: the truth",
			// Strays are deleted one by one (natskv.RemoveStrays), which is the operator's right alone.
			Subjects: []string{events.KindDelta.Subject("")}, DenyPurge: true,
		},
		{
			// Each letter has its own subject. A worker that withdraws one replaces it by a message that expires.
			Name: events.StreamDead, Description: "dead letters",
			Subjects: []string{events.DeadSubject("", "")}, MaxAge: keepDead, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
		},
		{
			// A key-value bucket by its conventions; created as a stream because the bucket call cannot allow atomic
			// batches, and switches them off again on update.
			Name: "KV_" + events.BucketPlaybook, Description: "the playbooks as they are: a view of " + events.StreamDeltas,
			Subjects: []string{"$KV." + events.BucketPlaybook + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, AllowAtomicPublish: true,
		},
		cached(jetstream.StreamConfig{
			// The server forgets the oldest of a key, so that nothing is read, changed and written back.
			Name: "KV_" + events.BucketWindow, Description: "the last interactions of sessions and the last reflections of books",
			Subjects: []string{"$KV." + events.BucketWindow + ".>"}, MaxMsgsPerSubject: WindowHistory, AllowRollup: true,
			DenyDelete: true, MaxAge: keepWindows,
		}, maxWindows),
		cached(jetstream.StreamConfig{
			Name: "KV_" + events.BucketContexts, Description: "contexts that were served, until their executions are reported",
			Subjects: []string{"$KV." + events.BucketContexts + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, MaxAge: keepContexts,
		}, maxContexts),
		cached(jetstream.StreamConfig{
			Name: "KV_" + events.BucketVectors, Description: "embeddings of texts, by model and text",
			Subjects: []string{"$KV." + events.BucketVectors + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, MaxAge: keepVectors,
		}, maxVectors),
		{
			Name: "KV_" + events.BucketRuns, Description: "runs over data sets: what they are, and how far",
			Subjects: []string{"$KV." + events.BucketRuns + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true,
		},
		{
			Name: attemptsStream, Description: "deliveries that were no attempts, by role and message",
			Subjects: []string{"$KV." + events.BucketAttempts + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true,
			DenyDelete: true, MaxAge: keepAttempts,
		},
	}
	for i := range all {
		all[i].Storage = jetstream.FileStorage
		if all[i].MaxMsgs == 0 {
			all[i].Discard = jetstream.DiscardNew // a full stream tells its producers
		}
		all[i].Replicas = replicas
		all[i].Duplicates = duplicates
		all[i].AllowDirect = true
	}
	return all
}

// used are the streams that a role cannot work without, nil for all.
func used(role string) []string {
	own := map[string][]string{
		events.RoleGenerator: {"KV_" + events.BucketPlaybook, "KV_" + events.BucketWindow, "KV_" + events.BucketContexts, "KV_" + events.BucketVectors},
		events.RoleReflector: {"KV_" + events.BucketWindow, events.StreamTasks},
		events.RoleCurator:   {events.StreamDeltas, "KV_" + events.BucketPlaybook},
	}[role]
	if own == nil {
		return nil
	}
	return append(own, source(role), sink(role), events.StreamDead, attemptsStream)
}

// ensure creates what is missing of what a role uses. What exists is left as its operator set it, unless we cannot work
// with it.
func (c *Conn) ensure(ctx context.Context, role string, replicas int) error {
	only := used(role)
	for _, want := range streams(replicas) {
		if only != nil && !slices.Contains(only, want.Name) {
			continue
		}
		var s jetstream.Stream
		err := insist(ctx, func(ctx context.Context) (err error) {
			s, err = c.js.Stream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				s, err = c.js.CreateStream(ctx, want)
				if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was first
					s, err = c.js.Stream(ctx, want.Name)
				}
				err = missing("stream "+want.Name, asUnsuitable(err))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("open stream %s: %w", want.Name, err)
		}
		if err := usable(s.CachedInfo().Config, want); err != nil {
			return err
		}
	}
	err := insist(ctx, func(ctx context.Context) error {
		_, err := c.js.ObjectStore(ctx, events.BucketBlobs)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			_, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
				Bucket: events.BucketBlobs, Description: "payloads too large for a message", TTL: keepBlobs, Replicas: replicas,
			})
			if errors.Is(err, jetstream.ErrBucketExists) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was first
				err = nil
			}
			err = missing("object store "+events.BucketBlobs, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("open object store %s: %w", events.BucketBlobs, err)
	}
	return nil
}

// missing is the error of making what was not there: of who may not, that somebody else has to.
func missing(what string, err error) error {
	if refused(err) {
		return fmt.Errorf("%s is not there, and not for this user to make: run 'debrief setup' as the operator (%w)", what, err)
	}
	return err
}

// Durables makes the durable consumers of all roles where they are missing, so that roles need no right to.
func (c *Conn) Durables(ctx context.Context) error {
	for _, role := range roles {
		if _, err := c.consumer(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// insistWait is how long the answer to one request may take, and insistPause how long it is until the next.
const insistWait, insistPause = 2 * time.Second, 100 * time.Millisecond

// insist makes a request until it is answered or the context ends: a cluster that has no leader yet drops what it is asked,
// or says that it cannot tell now.
func insist(ctx context.Context, ask func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, insistWait)
		err := ask(try)
		cancel()
		late := errors.Is(err, context.DeadlineExceeded) || Unreachable(err)
		if ctx.Err() != nil || !late || noJetStream(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(insistPause):
		}
	}
}

// UnsuitableError says that a stream is not as the roles need it. Its settings are an operator's to change.
type UnsuitableError struct{ Err error }

func (e *UnsuitableError) Error() string { return e.Err.Error() }
func (e *UnsuitableError) Unwrap() error { return e.Err }

// subjectOverlap is what the server answers to who makes a stream whose subjects another one takes already.
const subjectOverlap jetstream.ErrorCode = 10065

// asUnsuitable is the error of making a stream where others are in the way.
func asUnsuitable(err error) error {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && api.ErrorCode == subjectOverlap {
		return &UnsuitableError{err}
	}
	return err
}

// usable reports what is wrong with a stream, as an *UnsuitableError.
func usable(got, want jetstream.StreamConfig) error {
	unsuitable := func(format string, args ...any) error {
		return &UnsuitableError{fmt.Errorf("stream %s "+format, append([]any{got.Name}, args...)...)}
	}
	for _, s := range want.Subjects {
		if !slices.Contains(got.Subjects, s) {
			return unsuitable("does not take %s: it was set up by something else", s)
		}
	}
	switch {
	case got.Retention != want.Retention:
		return unsuitable("has retention %s, want %s: it was set up by something else", got.Retention, want.Retention)
	case want.AllowAtomicPublish && !got.AllowAtomicPublish:
		return unsuitable("does not allow atomic batches: set allow_atomic")
	case want.AllowRollup && !got.AllowRollup:
		return unsuitable("does not allow rollups: set allow_rollup_hdrs")
	case want.AllowMsgTTL && !got.AllowMsgTTL:
		return unsuitable("does not allow messages that expire: set allow_msg_ttl")
	case want.AllowMsgTTL && got.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return unsuitable("keeps %d messages of a subject, want %d: set max_msgs_per_subject", got.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	case !got.AllowDirect:
		return unsuitable("does not allow direct gets: set allow_direct")
	}
	return nil
}

// home is the stream that keeps a kind of event.
func home(k events.Kind) string {
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

// source is the stream that a role consumes.
func source(role string) string {
	switch role {
	case events.RoleGenerator:
		return events.StreamTasks
	case events.RoleReflector:
		return events.StreamExecutions
	}
	return events.StreamReflections
}

// roles are those that have a durable.
var roles = []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator}

// unlimited is MaxDeliver of every durable: the worker counts attempts. The only record of a message that a server gives
// up is an advisory, published once; the message would be lost with it.
const unlimited = -1

// durable is a role's durable, as the policy has it.
func (c *Conn) durable(role string) jetstream.ConsumerConfig {
	want := jetstream.ConsumerConfig{
		Durable: role, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.policy.AckWait, MaxDeliver: unlimited, MaxAckPending: c.policy.MaxAckPending,
	}
	if role == events.RoleCurator {
		want.MaxAckPending = c.policy.MaxCurating
	}
	return want
}

// consumer binds a role's durable, made or brought up to date with the policy where it differs.
func (c *Conn) consumer(ctx context.Context, role string) (jetstream.Consumer, error) {
	want := c.durable(role)
	cons, err := c.js.Consumer(ctx, source(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cons, err = c.js.CreateOrUpdateConsumer(ctx, source(role), want)
		err = missing("it", err)
	} else if err == nil {
		got := cons.CachedInfo().Config
		if got.AckWait != want.AckWait || got.MaxDeliver != want.MaxDeliver || got.MaxAckPending != want.MaxAckPending {
			got.AckWait, got.MaxDeliver, got.MaxAckPending = want.AckWait, want.MaxDeliver, want.MaxAckPending
			var changed jetstream.Consumer
			changed, err = c.js.UpdateConsumer(ctx, source(role), got)
			if refused(err) {
				c.log.Warn().Str("role", role).Msg("the consumer has another policy than this program, and is not for this user to change: run 'debrief setup' as the operator")
				return cons, nil
			}
			cons = changed
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", role, source(role), unanswered(ctx, err))
	}
	return cons, nil
}

// Lag is how far a role is behind.
type Lag struct {
	Pending     uint64 `json:"pending"`      // not delivered yet
	InFlight    int    `json:"in_flight"`    // delivered, not acked
	Redelivered int    `json:"redelivered"`  // of those, more than once
	Floor       uint64 `json:"ack_floor"`    // everything at or under this stream sequence is settled
	Last        uint64 `json:"last_handled"` // highest stream sequence delivered
}

// Idle reports that nothing waits and nothing is in work.
func (l Lag) Idle() bool { return l.Pending == 0 && l.InFlight == 0 }

// Lag asks the server where a role's durable is. A role that never ran is as far behind as its stream is long.
func (c *Conn) Lag(ctx context.Context, role string) (Lag, error) {
	cons, err := c.js.Consumer(ctx, source(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		s, err := c.js.Stream(ctx, source(role))
		if err != nil {
			return Lag{}, fmt.Errorf("read stream %s: %w", source(role), unanswered(ctx, err))
		}
		return Lag{Pending: s.CachedInfo().State.Msgs}, nil
	}
	if err != nil {
		return Lag{}, fmt.Errorf("read consumer %s: %w", role, unanswered(ctx, err))
	}
	return lagOf(cons.CachedInfo()), nil
}

// Idle reports whether a role has settled all that its stream holds. What was stored a moment ago may not be among what
// a consumer counts as pending yet, so the end of the stream decides.
func (c *Conn) Idle(ctx context.Context, role string) (bool, error) {
	s, err := c.js.Stream(ctx, source(role))
	if err != nil {
		return false, fmt.Errorf("read stream %s: %w", source(role), unanswered(ctx, err))
	}
	end := s.CachedInfo().State
	l, err := c.Lag(ctx, role)
	return err == nil && l.Idle() && (l.Last >= end.LastSeq || end.Msgs == 0), err
}

func lagOf(i *jetstream.ConsumerInfo) Lag {
	return Lag{i.NumPending, i.NumAckPending, i.NumRedelivered, i.AckFloor.Stream, i.Delivered.Stream}
}

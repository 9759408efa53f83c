package bus

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
)

// Policy holds the numbers of the failure policy. The zero value of a field is its default.
type Policy struct {
	AckWait       time.Duration // 30 s: after this long without a sign of life a message goes to another worker
	MaxAttempts   int           // 5: attempts at a message, counted by the workers
	MaxAckPending int           // 256: work in flight of a role, over all its processes
	MaxCurating   int           // 4096: the same for the curator, which holds whole batches
	BackoffMin    time.Duration // 1 s, doubled with every attempt
	BackoffMax    time.Duration // 60 s
	Grace         time.Duration // 30 s: how long work in flight may take to finish after a stop
	Probe         time.Duration // 30 s: how often a paused role tries one message
	Hold          time.Duration // 1 s: how often held work is tried again while something is unreachable
	Leave         time.Duration // 10 s: after this long without an answer from the streams another server is tried
	Linger        time.Duration // 250 ms: how long a batch under load may wait to fill
}

// WithDefaults fills in what is zero.
func (p Policy) WithDefaults() Policy {
	setDefault(&p.AckWait, 30*time.Second)
	setDefault(&p.MaxAttempts, 5)
	setDefault(&p.MaxAckPending, 256)
	setDefault(&p.MaxCurating, 4096)
	setDefault(&p.BackoffMin, time.Second)
	setDefault(&p.BackoffMax, time.Minute)
	setDefault(&p.Grace, 30*time.Second)
	setDefault(&p.Probe, 30*time.Second)
	setDefault(&p.Hold, time.Second)
	setDefault(&p.Leave, 10*time.Second)
	setDefault(&p.Linger, 250*time.Millisecond)
	return p
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (p Policy) backoff(attempt int) time.Duration {
	d := p.BackoffMin
	for range attempt - 1 {
		if d *= 2; d >= p.BackoffMax {
			return p.BackoffMax
		}
	}
	return d
}

// uselessMost is how many messages in a row may have useless output before the role pauses.
const uselessMost = 20

// verdict is what happens to a message.
type verdict string

const (
	ack   verdict = "ack"   // done
	retry verdict = "retry" // given back, delivered again after a back-off
	hold  verdict = "hold"  // kept in progress and retried here: no attempt
	dead  verdict = "dead"  // stored as a dead letter, then acknowledged
	back  verdict = "back"  // given back because the worker stops or pauses: no attempt
)

// judge is the failure policy: the one place that decides what becomes of a message, by the behaviour of the error
// and the number of the attempt. Paused: the role has paused over useless output, so that is the fault of the prompt or the
// model. An error that is useless or Away is not the message's own fault: see excuse.
func (p Policy) judge(err error, attempt int, paused bool) verdict {
	switch {
	case err == nil:
		return ack
	case errors.Is(err, events.ErrNewerSchema), discarded(err), errors.As(err, new(*exhaustedError)):
		return dead
	case Away(err):
		return hold
	case useless(err) && (paused || attempt >= p.MaxAttempts):
		return hold
	case attempt >= p.MaxAttempts:
		return dead
	}
	return retry
}

// Away reports that what is needed is not there just now: a model, the server, its room, or the right to something. The
// same will do later.
func Away(err error) bool { return unavailable(err) || Unreachable(err) || full(err) || refused(err) }

// DeniedError says that the server does not let this user publish or listen to a subject. Nothing was stored. Its rights
// are an operator's to change; meanwhile work is held.
type DeniedError = denied.Error

func refused(err error) bool {
	var e *DeniedError
	return errors.As(err, &e)
}

// The behaviours of errors that the policy knows. An error that has one may still answer no.

func discarded(err error) bool {
	var e interface{ Discard() bool }
	return errors.As(err, &e) && e.Discard()
}

func unavailable(err error) bool {
	var e interface{ Unavailable() bool }
	return errors.As(err, &e) && e.Unavailable()
}

func unasked(err error) bool {
	var e interface{ Unasked() bool }
	return unavailable(err) && errors.As(err, &e) && e.Unasked()
}

func useless(err error) bool {
	var e interface{ Useless() bool }
	return errors.As(err, &e) && e.Useless()
}

// Unreachable reports that the server did not answer: nothing is known about the message's own fitness.
func Unreachable(err error) bool {
	for _, e := range []error{
		nats.ErrConnectionClosed, nats.ErrDisconnected, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrReconnectBufExceeded,
		nats.ErrConnectionReconnecting, nats.ErrNoServers, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	// 503 is "not now": a cluster without a leader, a server that is still reading its streams back. So is, of a stream whose
	// leader cannot reach the other copies, that the first try of this message is still under way (10158), or too much is (10167).
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.Code == 503 || api.ErrorCode == 10158 || api.ErrorCode == 10167)
}

// AccountFull is the server's code for an account at its limit. The embedded server sets that limit while its disk is nearly
// full.
const AccountFull jetstream.ErrorCode = 10002

// full reports that the server has no room for what should be stored. Room comes back by age or by an operator.
func full(err error) bool {
	if known := (*FullError)(nil); errors.As(err, &known) {
		return true
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case AccountFull,
		10023, // insufficient resources
		10028, // memory resources exceeded
		10047, // storage resources exceeded
		10077: // stream store failed: maximum bytes or messages
		return true
	}
	return false
}

// discard is the error that says "do not deliver this again".
type discard struct{ err error }

func (d *discard) Error() string { return d.err.Error() }
func (d *discard) Unwrap() error { return d.err }
func (d *discard) Discard() bool { return true }

// Discard marks an error as the message's own: no delivery will go better, so it becomes a dead letter at once.
func Discard(err error) error {
	if err == nil {
		return nil
	}
	return &discard{err}
}

// FullError is returned to a producer when the server has no room. The event was not stored.
type FullError struct{ Err error }

func (e *FullError) Error() string {
	if api := (*jetstream.APIError)(nil); !errors.As(e.Err, &api) {
		return "the server takes nothing new: " + e.Err.Error()
	}
	return "the server's store is full (" + e.Err.Error() + "): raise its limit or let old events expire, then try again"
}
func (e *FullError) Unwrap() error { return e.Err }

// RetryAfter is how long a producer should wait before it tries again.
func (e *FullError) RetryAfter() time.Duration { return 5 * time.Second }

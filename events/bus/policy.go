package bus

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/erasure"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// Policy configures the failure policy. The zero value of a field means its default.
type Policy struct {
	AckWait              time.Duration // 30 s: after this time without an ack or an in-progress ack, the server redelivers
	AckWaitCurator       time.Duration // 5 s: AckWait of the curator, at most AckWait: a killed one delays its playbooks by this time
	MaxAttempts          int           // 5: attempts to handle a message, counted by the workers
	MaxAckPending        int           // 256: messages in flight of a role, over all its processes
	MaxAckPendingCurator int           // 4096: MaxAckPending of the curator, which takes whole batches
	BackoffMin           time.Duration // 1 s: delay before the second attempt; it doubles with every attempt
	BackoffMax           time.Duration // 60 s: longest delay
	Grace                time.Duration // 30 s: how long messages in flight may take after a stop
	ProbeInterval        time.Duration // 30 s: interval at which a role tries one message during an outage; in a pause it grows from BackoffMin to twice this
	HoldInterval         time.Duration // 1 s: interval at which held messages are retried
	ReconnectAfter       time.Duration // 10 s: after this time without an answer, the connection changes the server
	Linger               time.Duration // 250 ms: how long a batch may wait to fill under load
}

// WithDefaults returns p with the defaults in place of zero fields.
func (p Policy) WithDefaults() Policy {
	p.AckWait = cmp.Or(p.AckWait, 30*time.Second)
	p.AckWaitCurator = cmp.Or(p.AckWaitCurator, 5*time.Second)
	p.MaxAttempts = cmp.Or(p.MaxAttempts, 5)
	p.MaxAckPending = cmp.Or(p.MaxAckPending, 256)
	p.MaxAckPendingCurator = cmp.Or(p.MaxAckPendingCurator, 4096)
	p.BackoffMin = cmp.Or(p.BackoffMin, time.Second)
	p.BackoffMax = cmp.Or(p.BackoffMax, time.Minute)
	p.Grace = cmp.Or(p.Grace, 30*time.Second)
	p.ProbeInterval = cmp.Or(p.ProbeInterval, 30*time.Second)
	p.HoldInterval = cmp.Or(p.HoldInterval, time.Second)
	p.ReconnectAfter = cmp.Or(p.ReconnectAfter, 10*time.Second)
	p.Linger = cmp.Or(p.Linger, 250*time.Millisecond)
	return p
}

// ackWait returns the ack wait of a role.
func (p Policy) ackWait(role string) time.Duration {
	if role == events.RoleCurator {
		return min(p.AckWait, p.AckWaitCurator)
	}
	return p.AckWait
}

// backoff returns the delay after a failed attempt.
func (p Policy) backoff(attempt int) time.Duration {
	d := p.BackoffMin
	for range attempt - 1 {
		d *= 2
		if d >= p.BackoffMax {
			return p.BackoffMax
		}
	}
	return d
}

// ErrInterrupted as the cause of a context makes Run cancel the handlers soon after the end of that context. Their messages
// are redelivered. A person who interrupts a program does not wait for Policy.Grace.
var ErrInterrupted = errors.New("interrupted")

// interruptGrace is how long messages in flight may take after ErrInterrupted: results that exist are stored.
const interruptGrace = 100 * time.Millisecond

// graceOf returns how long messages in flight may take after the end of ctx.
func (p Policy) graceOf(ctx context.Context) time.Duration {
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		return min(p.Grace, interruptGrace)
	}
	return p.Grace
}

// maxUselessInRow is the number of useless outputs in a row, each the first of its messages, at which the role pauses. A
// handler calls the model up to four times for an output (chat.MaxCalls).
const maxUselessInRow = 10

// maxUseless is the number of useless outputs after which a message becomes a dead letter although the model gives no useful output for
// other messages either. The last of them are probes of a pause, up to a minute apart.
func (p Policy) maxUseless() int { return p.MaxAttempts + 5 }

// disposition is how the worker ends a delivery. Its value is the attribute debrief.disposition of the delivery's span.
type disposition string

const (
	ack        disposition = "ack"   // handled
	nak        disposition = "retry" // redelivered after the backoff
	hold       disposition = "hold"  // kept in progress and retried by this worker; not an attempt
	deadLetter disposition = "dead"  // stored as a dead letter, then acknowledged
	release    disposition = "back"  // nak because the worker stops or pauses, or the message waits for another; not an attempt
)

// decide is the failure policy. It looks at the behaviours of the error and at the number of the attempt. paused means that the role has
// paused because of useless output: then the prompt or the model is at fault. Call assignFault before: if the message is at fault for
// useless output or an outage, assignFault returns an error without these behaviours.
func (p Policy) decide(err error, attempt int, paused bool) disposition {
	switch {
	case err == nil, errors.Is(err, erasure.ErrErased):
		return ack
	case errors.Is(err, events.ErrNewerSchema), isDiscard(err), errors.As(err, new(*exhaustedError)):
		return deadLetter
	case IsUnavailable(err):
		return hold
	case isDeferred(err):
		return release
	case isUseless(err) && (paused || attempt >= p.MaxAttempts):
		return hold
	case attempt >= p.MaxAttempts:
		return deadLetter
	}
	return nak
}

// IsUnavailable reports a temporary outage: of the model, the server, its storage or a permission. A later retry can succeed.
func IsUnavailable(err error) bool {
	return isDependencyUnavailable(err) || Unreachable(err) || isFull(err) || natserr.IsDenied(err)
}

// DeniedError is returned when the server denies this user a publish or a subscription. Nothing was stored. Work is
// held until an operator grants the permission.
type DeniedError = natserr.DeniedError

// An error has a behaviour if it has the method of that name and the method returns true. Other packages define such errors.

// isDiscard reports whether no further delivery can succeed.
func isDiscard(err error) bool {
	var e interface{ Discard() bool }
	return errors.As(err, &e) && e.Discard()
}

// isDependencyUnavailable reports whether the model, or another dependency of the handler, is temporarily unavailable.
func isDependencyUnavailable(err error) bool {
	var e interface{ Unavailable() bool }
	return errors.As(err, &e) && e.Unavailable()
}

// isMisconfigured reports whether a dependency is unavailable until a person changes a setting or the account.
func isMisconfigured(err error) bool {
	var e interface{ Misconfigured() bool }
	return isDependencyUnavailable(err) && errors.As(err, &e) && e.Misconfigured()
}

// isUnasked reports whether the model counts as unavailable without a request to it: the circuit breaker is open.
func isUnasked(err error) bool {
	var e interface{ Unasked() bool }
	return isDependencyUnavailable(err) && errors.As(err, &e) && e.Unasked()
}

// isDeferred reports whether the message waits for another message, see Defer.
func isDeferred(err error) bool {
	var e interface{ Deferred() bool }
	return errors.As(err, &e) && e.Deferred()
}

// isUseless reports whether the model gave useless output.
func isUseless(err error) bool {
	var e interface{ Useless() bool }
	return errors.As(err, &e) && e.Useless()
}

// Unreachable reports whether the server did not answer. Such an error is not the fault of the message.
func Unreachable(err error) bool {
	for _, e := range []error{
		nats.ErrConnectionClosed, nats.ErrDisconnected, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrReconnectBufExceeded,
		nats.ErrConnectionReconnecting, nats.ErrNoServers, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	// All three codes are temporary. 503: a cluster has no leader, or a server is still loading its streams. 10158 and 10167: the
	// leader of the stream cannot reach its replicas. With 10158 an earlier publish of the same id is still in progress, with 10167
	// too many publishes are.
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.Code == 503 || api.ErrorCode == 10158 || api.ErrorCode == 10167)
}

// AccountFull is the server's error code for an account at its storage limit. The embedded server lowers this limit
// while its disk is nearly full.
const AccountFull jetstream.ErrorCode = 10002

// StorageFull is the server's error code for a server at its storage limit.
const StorageFull jetstream.ErrorCode = 10047

// StreamSealed is the server's error code for a stream that an operator has sealed.
const StreamSealed jetstream.ErrorCode = 10109

// isFull reports whether the server has no room for the message. Old messages expire, or an operator adds room.
func isFull(err error) bool {
	if _, isKnown := errors.AsType[*FullError](err); isKnown {
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return false
	}
	switch api.ErrorCode {
	case AccountFull,
		10023, // insufficient resources
		10028, // memory resources exceeded
		StorageFull,
		10077, // stream store failed: maximum bytes or messages
		StreamSealed:
		return true
	}
	return false
}

// discardError marks an error that no further delivery can change.
type discardError struct{ err error }

func (d *discardError) Error() string { return d.err.Error() }
func (d *discardError) Unwrap() error { return d.err }
func (d *discardError) Discard() bool { return true }

// Discard marks err as permanent: no further delivery can succeed, so the message becomes a dead letter at once.
func Discard(err error) error {
	if err == nil {
		return nil
	}
	return &discardError{err}
}

// deferredError marks an error of a message that waits for another message.
type deferredError struct{ err error }

func (d *deferredError) Error() string  { return d.err.Error() }
func (d *deferredError) Unwrap() error  { return d.err }
func (d *deferredError) Deferred() bool { return true }

// Defer marks err as a wait for another message of the stream: the message is delivered again after Policy.BackoffMin. The
// delivery does not count as an attempt, so the handler must limit the wait.
func Defer(err error) error {
	if err == nil {
		return nil
	}
	return &deferredError{err}
}

// FullError is returned by a publish when the server has no room. The event was not stored.
type FullError struct{ Err error }

func (e *FullError) Error() string {
	api, ok := errors.AsType[*jetstream.APIError](e.Err)
	switch {
	case !ok:
		return "the server accepts no new messages: " + e.Err.Error()
	case api.ErrorCode == StreamSealed:
		return "the stream is sealed: " + streams.UnsealFix
	}
	return "the server's store is full (" + e.Err.Error() + "): raise its limit or wait until old events expire, then retry"
}
func (e *FullError) Unwrap() error { return e.Err }

// RetryAfter returns how long a producer should wait before the next try.
func (e *FullError) RetryAfter() time.Duration { return 5 * time.Second }

package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

func TestFailurePolicy(t *testing.T) {
	t.Parallel()
	code := func(status int, code jetstream.ErrorCode) error {
		return &jetstream.APIError{Code: status, ErrorCode: code, Description: "refused"}
	}
	always := func(v disposition) [5]disposition { return [5]disposition{v, v, v, v, v} }
	lastDead := [5]disposition{nak, nak, nak, nak, deadLetter}
	for _, row := range []struct {
		what           string
		err            error
		calm, inPause  [5]disposition // by attempt, 1 to 5
		alsoWhenJoined bool
	}{
		{"handled", nil, always(ack), always(ack), false},
		{"newer schema", events.ErrNewerSchema, always(deadLetter), always(deadLetter), true},
		{"all attempts had", &exhaustedError{5}, always(deadLetter), always(deadLetter), true},
		{"undecodable or invalid", Discard(errors.New("byte 3 begins no value")), always(deadLetter), always(deadLetter), true},
		{"discarded because of an outage", Discard(nats.ErrTimeout), always(deadLetter), always(deadLetter), true},
		{"model unreachable", unavailableError{}, always(hold), always(hold), true},
		{"no connection", nats.ErrConnectionClosed, always(hold), always(hold), true},
		{"disconnected", nats.ErrDisconnected, always(hold), always(hold), true},
		{"reconnecting", nats.ErrConnectionReconnecting, always(hold), always(hold), true},
		{"reconnect buffer full", nats.ErrReconnectBufExceeded, always(hold), always(hold), true},
		{"no servers", nats.ErrNoServers, always(hold), always(hold), true},
		{"no answer", nats.ErrTimeout, always(hold), always(hold), true},
		{"no responders", nats.ErrNoResponders, always(hold), always(hold), true},
		{"no answer from the stream", jetstream.ErrNoStreamResponse, always(hold), always(hold), true},
		{"cluster without a leader", code(503, 10008), always(hold), always(hold), true},
		{"first try still under way", code(409, 10158), always(hold), always(hold), true},
		{"too much under way", code(429, 10167), always(hold), always(hold), true},
		{"insufficient resources", code(503, 10023), always(hold), always(hold), true},
		{"memory full", code(500, 10028), always(hold), always(hold), true},
		{"storage full", code(500, 10047), always(hold), always(hold), true},
		{"account full", code(400, 10002), always(hold), always(hold), true},
		{"stream full", &FullError{code(503, 10077)}, always(hold), always(hold), true},
		{"stream sealed", code(400, 10109), always(hold), always(hold), true},
		{"another refusal of the server", code(400, 10071), lastDead, lastDead, true},
		{"useless output", uselessError{}, [5]disposition{nak, nak, nak, nak, hold}, always(hold), true},
		{"useless output while others are answered", &messageFaultError{err: uselessError{}}, lastDead, lastDead, true},
		{"handler error", errHandler, lastDead, lastDead, true},
		{"panic", fmt.Errorf("handler panicked: %v", "boom"), lastDead, lastDead, true},
		{"handler's own deadline", context.DeadlineExceeded, lastDead, lastDead, true},
		{"cancelled after the grace", context.Canceled, lastDead, lastDead, true},
		{"waits for another message", Defer(errHandler), always(release), always(release), true},
		{"behaviours that say no", falseError{}, lastDead, lastDead, true},
	} {
		forms := map[string]error{"": row.err}
		if row.alsoWhenJoined {
			forms[", wrapped"] = fmt.Errorf("handle: %w", fmt.Errorf("ask: %w", row.err))
			forms[", joined"] = errors.Join(errors.New("also this"), row.err)
		}
		for form, err := range forms {
			for n := 1; n <= 5; n++ {
				if got, want := (Policy{}).WithDefaults().decide(err, n, false), row.calm[n-1]; got != want {
					t.Errorf("%s%s, delivery %d: got %s, want %s", row.what, form, n, got, want)
				}
				if got, want := (Policy{}).WithDefaults().decide(err, n, true), row.inPause[n-1]; got != want {
					t.Errorf("%s%s, delivery %d, paused: got %s, want %s", row.what, form, n, got, want)
				}
			}
		}
	}
}

func TestAttemptsAboveLimitAreDeadLettered(t *testing.T) {
	t.Parallel()
	if got := (Policy{MaxAttempts: 2}).WithDefaults().decide(errHandler, 7, false); got != deadLetter {
		t.Errorf("got %s, want %s", got, deadLetter)
	}
}

func TestBackoffDoublesUpToMax(t *testing.T) {
	t.Parallel()
	p := Policy{}.WithDefaults()
	for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := p.backoff(n); got != want {
			t.Errorf("after delivery %d: got %s, want %s", n, got, want)
		}
	}
}

func TestDiscardNil(t *testing.T) {
	t.Parallel()
	if err := Discard(nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if err := Discard(errHandler); !errors.Is(err, errHandler) || err.Error() != errHandler.Error() {
		t.Errorf("got %v, want the error itself, marked", err)
	}
}

func TestWithDefaultsFillsOnlyZeroFields(t *testing.T) {
	t.Parallel()
	got := Policy{MaxAttempts: 2, HoldInterval: time.Hour}.WithDefaults()
	want := Policy{
		AckWait: 30 * time.Second, AckWaitCurator: 5 * time.Second, MaxAttempts: 2, MaxAckPending: 256, MaxAckPendingCurator: 4096, BackoffMin: time.Second, BackoffMax: time.Minute,
		Grace: 30 * time.Second, ProbeInterval: 30 * time.Second, HoldInterval: time.Hour, ReconnectAfter: 10 * time.Second, Linger: 250 * time.Millisecond,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

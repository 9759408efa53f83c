package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/events"
)

// outputPolicy is the failure policy for the outputs of a model, without a server.
type outputPolicy struct {
	state *roleState
	items map[uint64]*item
}

func newOutputPolicy(p Policy) *outputPolicy {
	r := &runner{
		conn: &Conn{Health: &Health{}}, worker: Worker{Role: events.RoleReflector}, policy: p.WithDefaults(),
		intake: context.Background(), wake: make(chan struct{}, 1),
	}
	return &outputPolicy{state: &roleState{runner: r}, items: make(map[uint64]*item)}
}

// deliver returns the disposition of the next delivery of a message with an output. A hold is not an attempt.
func (o *outputPolicy) deliver(seq uint64, isUseful bool) disposition {
	it := o.items[seq]
	if it == nil {
		it = &item{d: Delivery{Seq: seq}}
		o.items[seq] = it
	}
	it.d.Attempt++
	it.result = &Result{ModelUseful: true}
	if !isUseful {
		it.result = &Result{Err: uselessError{}}
	}
	o.state.recordResults([]*item{it})
	err := o.state.assignFault(it, it.result.Err)
	d := o.state.policy.decide(err, it.d.Attempt, o.state.isPaused())
	switch d {
	case hold:
		it.d.Attempt--
	case ack, deadLetter:
		o.state.forgetFailures(it)
		delete(o.items, seq)
	}
	return d
}

// TestUselessOutputPolicy checks these properties for any order of deliveries and outputs:
//
//   - A message becomes a dead letter only after MaxAttempts deliveries, and after useful output for another message since its
//     first useless output, or after five more deliveries.
//   - A message never has more than these deliveries, also alone.
//   - Useful output ends a pause.
//   - A poison message becomes a dead letter within MaxAttempts further deliveries while others have useful output.
func TestUselessOutputPolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := newOutputPolicy(Policy{MaxAttempts: rapid.IntRange(1, 6).Draw(t, "attempts")})
		limit := o.state.policy.MaxAttempts
		deliveries, hasOther := make(map[uint64]int), make(map[uint64]bool)
		for range rapid.IntRange(0, 80).Draw(t, "deliveries") {
			seq, isUseful := rapid.Uint64Range(1, 15).Draw(t, "message"), rapid.Bool().Draw(t, "useful")
			deliveries[seq]++
			d := o.deliver(seq, isUseful)
			if isUseful {
				for other := range deliveries {
					hasOther[other] = true
				}
				if d != ack || o.state.isPaused() {
					t.Fatalf("useful output for %d: got %s, paused %t", seq, d, o.state.isPaused())
				}
			}
			isLast := deliveries[seq] == o.state.policy.maxUseless()
			if d == deadLetter && !isLast && (deliveries[seq] < limit || !hasOther[seq]) {
				t.Fatalf("dead letter of %d after %d deliveries, useful output for another: %t", seq, deliveries[seq], hasOther[seq])
			}
			if !isUseful && isLast && d != deadLetter {
				t.Fatalf("%s of %d after %d deliveries, want a dead letter", d, seq, deliveries[seq])
			}
			if d == ack || d == deadLetter {
				delete(deliveries, seq)
				delete(hasOther, seq)
			}
		}
		const poison, good = 100, 200
		o.deliver(poison, false)
		for i := range limit {
			o.deliver(good+uint64(i), true)
			if o.deliver(poison, false) == deadLetter {
				return
			}
		}
		t.Fatalf("a poison message has no dead letter after %d deliveries", limit+1)
	})
}

// TestIndependentFaultsRarelyCauseDeadLetters delivers messages one after the other, so that useless outputs of one message
// follow each other. An attempt is useless if four calls of the model are.
func TestIndependentFaultsRarelyCauseDeadLetters(t *testing.T) {
	t.Parallel()
	const messages, calls = 20_000, 4
	for _, broken := range []float64{0.1, 0.3, 0.6} {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			t.Parallel()
			draw := rand.New(rand.NewPCG(1, 0))
			isUseful := func() bool {
				for range calls {
					if draw.Float64() >= broken {
						return true
					}
				}
				return false
			}
			o := newOutputPolicy(Policy{})
			dead, pauses, wait := 0, 0, time.Duration(0)
			for seq := range uint64(messages) {
				waited := time.Duration(0)
				for done := false; !done; {
					wasPaused := o.state.isPaused()
					d := o.deliver(seq, isUseful())
					if o.state.isPaused() && !wasPaused {
						pauses++
					}
					switch d {
					case nak:
						waited += o.state.policy.backoff(o.items[seq].d.Attempt)
					case hold:
						o.state.mu.Lock()
						waited += o.state.probeInterval(&o.state.policy) + 2*o.state.policy.HoldInterval
						o.state.startProbe(&o.state.policy)
						o.state.mu.Unlock()
					case deadLetter:
						dead++
						done = true
					default:
						done = true
					}
				}
				wait = max(wait, waited)
			}
			t.Logf("%d dead letters and %d pauses of %d messages, the longest wait is %s", dead, pauses, messages, wait)
			if dead > messages/1000 || pauses > messages/200 || wait > 30*time.Second {
				t.Errorf("got %d dead letters, %d pauses and a wait of %s, want at most %d, %d and 30 s", dead, pauses, wait, messages/1000, messages/200)
			}
		})
	}
}

// A message whose replies are never useful becomes a dead letter, also if the model answers nothing else. The pauses between its attempts grow
// to a minute.
func TestMessageAloneBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	o := newOutputPolicy(Policy{})
	var pauses []time.Duration
	for range 20 {
		d := o.deliver(1, false)
		if d == deadLetter {
			break
		}
		if d == hold {
			pauses = append(pauses, o.state.probeInterval(&o.state.policy))
			o.state.startProbe(&o.state.policy)
		}
	}
	want := []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute}
	if !slices.Equal(pauses, want) || len(o.items) != 0 {
		t.Errorf("got pauses %v and %d messages, want %v and a dead letter", pauses, len(o.items), want)
	}
	err := &messageFaultError{reason: "no useful reply", err: uselessError{}, isFinal: true}
	if deadCode(err) != events.DeadUseless || isUseless(err) || Loggable(err) == "" {
		t.Errorf("got the code %s", deadCode(err))
	}
}

// TestMessagesOfOneRequestCountOnce checks that one useless output for many messages does not pause a role.
func TestMessagesOfOneCallCountOnce(t *testing.T) {
	t.Parallel()
	o := newOutputPolicy(Policy{})
	for call := range maxUselessInRow {
		if o.state.isPaused() {
			t.Fatalf("paused after %d calls, want %d", call, maxUselessInRow)
		}
		var items []*item
		for i := range 5 {
			items = append(items, &item{d: Delivery{Seq: uint64(5*call + i), Attempt: 1}, result: &Result{Err: uselessError{}}})
		}
		o.state.recordResults(items)
	}
	if !o.state.isPaused() {
		t.Errorf("not paused after %d calls with useless output", maxUselessInRow)
	}
}

// TestProbingWorkerPullsOneMessageForEachInterval checks the capacity of a worker that is paused or holds messages.
func TestProbingWorkerPullsOneMessageForEachInterval(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		r := &runner{worker: Worker{Slots: 2, Batch: batch}, policy: fastPolicy.WithDefaults()}
		p := &puller{runner: r, flight: &inFlight{runner: r, items: map[uint64]*item{}}, state: &roleState{runner: r}}
		for _, test := range []struct {
			name    string
			holding int
			held    uint64
			wait    time.Duration
			want    int
		}{
			{"before the next interval", 0, 0, time.Hour, 0},
			{"after it", 0, 0, -time.Hour, 1},
			{"a probe is in progress", 0, 1, -time.Hour, 0},
			{"a message is held, before the next interval", 1, 1, time.Hour, 0},
			{"a message is held, after it", 1, 1, -time.Hour, 1},
		} {
			p.state.workerState = workerState{paused: test.holding == 0, holding: test.holding, probeAt: time.Now().Add(test.wait)}
			clear(p.flight.items)
			for seq := range test.held {
				p.flight.items[seq] = new(item)
			}
			if n, probing := p.capacity(); n != test.want || !probing {
				t.Errorf("batch %d, %s: got %d messages and probing %t, want %d and true", batch, test.name, n, probing, test.want)
			}
		}
	}
}

func TestProbeIntervalGrows(t *testing.T) {
	t.Parallel()
	o := newOutputPolicy(Policy{})
	s, p := &o.state.workerState, &o.state.policy
	if got := s.probeInterval(p); got != p.ProbeInterval {
		t.Errorf("not paused: got %s, want %s", got, p.ProbeInterval)
	}
	for range 3 {
		o.deliver(1, false)
	}
	if !s.paused {
		t.Fatal("not paused after three attempts of a message")
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := s.probeInterval(p); got != want*time.Second {
			t.Errorf("probe %d: got %s, want %s", s.probes, got, want*time.Second)
		}
		s.startProbe(p)
	}
	o.deliver(2, true)
	for range 3 {
		o.deliver(3, false)
	}
	if got := s.probeInterval(p); !s.paused || got != p.BackoffMin {
		t.Errorf("at the next pause, %t: got %s, want %s", s.paused, got, p.BackoffMin)
	}
}

package bus

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// condition is what keeps a worker from taking work. All of it is under run.mu.
type condition struct {
	outdated error          // there is a dead letter of a newer schema
	holding  int            // groups of deliveries that wait for something unreachable
	answered int            // messages that a model was useful for, ever
	blamed   map[uint64]int // by sequence: how many those were when the message last found the model unreachable
	suspect  map[uint64]int // by sequence: how many those were when the model was first useless for the message
	failing  int            // messages that the model was first useless for since it was useful for one
	why      error          // the newest reason of a hold
	lost     error          // why there is no consumer to pull from
	denied   error          // what the server did not let us do since it last gave us work

	paused  bool          // over useless output
	resumed chan struct{} // closed when the pause ends
	useless error
	probeAt time.Time // when a probing worker may take its next message
}

// own reports that useless output is a message's own fault: the model was useful for another one since it was first
// useless for this one. It is not while the role is paused.
func (s *condition) own(seq uint64) bool {
	before, known := s.suspect[seq]
	return known && s.answered > before && !s.paused
}

// probing reports that the worker takes no more than one message in a while, to see whether things are better.
func (s *condition) probing() bool { return s.holding > 0 || s.paused }

// change changes the worker's condition and shows it. State and condition change under one lock, so that two changes
// at the same time cannot leave the older state on show.
func (r *run) change(f func(*condition)) {
	r.mu.Lock()
	f(&r.state)
	s := &r.state
	state, reason := Running, error(nil)
	switch {
	case s.outdated != nil:
		state, reason = Outdated, s.outdated
	case s.holding > 0 && !(s.paused && useless(s.why)):
		state, reason = Unavailable, s.why
	case s.lost != nil:
		state, reason = Unavailable, s.lost
	case s.denied != nil:
		state, reason = Unavailable, s.denied
	case s.paused:
		state, reason = Paused, s.useless
	}
	text, loggable := "", ""
	if reason != nil {
		text, loggable = reason.Error(), Loggable(reason)
	}
	changed := r.c.health.set(r.w.Role, state, text)
	if r.pulls != nil && s.probing() {
		r.pulls.Drain() // what is on its way is still accepted
	}
	r.mu.Unlock()
	r.wakeUp()
	if !changed {
		return
	}
	level := r.log.Warn()
	if state == Running {
		level = r.log.Info()
	}
	level.Str("state", string(state)).Str("reason", loggable).Msg("state changed")
}

// lost notes why there is no consumer to pull from; nil says that there is one.
func (r *run) lost(err error) { r.change(func(s *condition) { s.lost = err }) }

// denied notes that the server refused to give us work, or to take it as settled: to those who ask for either it says
// nothing. nil says that there was work again.
func (r *run) denied(err error) { r.change(func(s *condition) { s.denied = err }) }

// answered notes that the server has taken a pull and has nothing for it. What it refused before it refuses no longer,
// unless that was an ack: what was not acked comes again, and is work.
func (r *run) answered() {
	var e *DeniedError
	r.mu.Lock()
	pull := errors.As(r.state.denied, &e) && strings.HasPrefix(e.Subject, pullSubject)
	r.mu.Unlock()
	if pull {
		r.denied(nil)
	}
}

// excuse returns an item's error as it counts. A message may blame the model at first. Its fault is its own, and the error
// an ordinary one, when the model was useful for another message meanwhile: since it was first useless for this one, or
// since this one last found it unreachable, as with a prompt that makes the model's server fail. An error without a
// request, as when a circuit breaker is open, does not count.
func (r *run) excuse(it *item, err error) error {
	if unasked(err) || !unavailable(err) && !useless(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, seq := &r.state, it.d.Seq
	var own bool
	if unavailable(err) {
		before, known := s.blamed[seq]
		own = known && s.answered > before
		remember(&s.blamed, seq, s.answered)
	} else {
		own = s.own(seq)
		if _, known := s.suspect[seq]; !known {
			remember(&s.suspect, seq, s.answered)
		}
	}
	if own {
		return &ownFault{err}
	}
	return err
}

func remember(m *map[uint64]int, seq uint64, answered int) {
	if *m == nil || len(*m) >= maxBlamed {
		*m = make(map[uint64]int)
	}
	(*m)[seq] = answered
}

// acquit forgets that a settled message blamed the model.
func (r *run) acquit(it *item) {
	r.mu.Lock()
	delete(r.state.suspect, it.d.Seq)
	delete(r.state.blamed, it.d.Seq)
	r.mu.Unlock()
}

// apart is the redelivery delay of a useless message that is given back during a pause. It grows with their number, so
// that at most half of the probes go to such messages.
func (r *run) apart() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(max(r.p.BackoffMax, 2*r.p.Probe*time.Duration(len(r.state.suspect))), 10*r.p.BackoffMax)
}

// maxBlamed bounds the memory for who had to be held.
const maxBlamed = 4096

// ownFault hides the behaviours of an error that others do not have.
type ownFault struct{ err error }

func (f *ownFault) Error() string    { return "while others are answered: " + f.err.Error() }
func (f *ownFault) Loggable() string { return "while others are answered: " + Loggable(f.err) }

// hold counts the groups of deliveries that wait for something unreachable; while there are any, no more is taken than
// a probe.
func (r *run) hold(d int, why error) {
	r.change(func(s *condition) {
		s.holding += d
		if why != nil {
			s.why = why
		}
	})
}

// waitHeld waits before held work is tried again; false says that the worker is stopping.
func (r *run) waitHeld(why error, try int) bool {
	if useless(why) {
		return r.waitTurn()
	}
	d := min(r.p.Hold*time.Duration(1+try), 10*r.p.Hold)
	var after interface{ RetryAfter() time.Duration }
	if errors.As(why, &after) {
		d = max(d, min(after.RetryAfter(), 10*r.p.Hold))
	}
	return r.rest(d)
}

// waitTurn waits until the pause is over, or nobody else has probed for a while: what waits in the stream comes first,
// so that no few messages decide how long the pause lasts.
func (r *run) waitTurn() bool {
	for {
		r.mu.Lock()
		s := &r.state
		left, resumed := time.Until(s.probeAt.Add(2*r.p.Hold)), s.resumed
		turn := !s.paused || left <= 0
		if s.paused && turn {
			s.probeAt = time.Now().Add(r.p.Probe)
		}
		r.mu.Unlock()
		if turn {
			return r.intake.Err() == nil
		}
		t := time.NewTimer(left)
		select {
		case <-r.intake.Done():
		case <-resumed:
		case <-t.C:
		}
		t.Stop()
		if r.intake.Err() != nil {
			return false
		}
	}
}

// note takes the results of handled items into account. Useful output ends a pause. Useless output begins one, once it is
// the rule: then the role gives back its queue, holds useless messages, and tries one message per probe interval.
// Other errors, and messages that are handled without the model, do not count.
func (r *run) note(items []*item) {
	useful := 0
	for _, it := range items {
		if it.done.Err == nil && it.done.Asked {
			useful++
		}
	}
	if useful > 0 {
		r.useful(useful)
	}
	for _, it := range items {
		if useless(it.done.Err) {
			r.useless(it)
		}
	}
}

func (r *run) useful(n int) {
	r.mu.Lock()
	s := &r.state
	s.answered += n
	s.failing = 0
	paused := s.paused
	r.mu.Unlock()
	if !paused {
		return
	}
	r.change(func(s *condition) {
		if s.paused {
			close(s.resumed)
		}
		s.paused, s.resumed = false, nil
	})
}

// useless counts messages that the model was useless for the first time: those that come again come in a row.
func (r *run) useless(it *item) {
	r.mu.Lock()
	s := &r.state
	if _, known := s.suspect[it.d.Seq]; !known {
		s.failing++
	}
	n := s.failing
	begin := !s.paused && !s.own(it.d.Seq) && (n >= uselessMost || 2*it.d.Attempt > r.p.MaxAttempts)
	r.mu.Unlock()
	if !begin {
		return
	}
	r.change(func(s *condition) {
		if !s.paused {
			s.paused, s.resumed = true, make(chan struct{})
		}
		s.probeAt = time.Now().Add(r.p.Probe)
		s.useless = fmt.Errorf("the model's output was useless for the last %s: %w", messages(max(n, 1)), it.done.Err)
	})
	r.giveBackQueued(r.p.BackoffMax)
}

func messages(n int) string {
	if n == 1 {
		return "message"
	}
	return fmt.Sprintf("%d messages", n)
}

func (r *run) isPaused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.paused
}

package bus

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// condition is what keeps a worker from taking work. All of it is under run.mu.
type condition struct {
	outdated error          // a newer schema was met
	holding  int            // groups of deliveries that wait for something unreachable
	answered int            // deliveries that the handler finished well, ever
	blamed   map[uint64]int // by sequence: how many those were when the message last blamed the model
	why      error          // the newest reason of those
	lost     error          // why there is no consumer to pull from
	denied   error          // what the server did not let us do since it last gave us work

	paused  bool          // over useless output
	resumed chan struct{} // closed when the pause ends
	useless error
	probeAt time.Time // when a probing worker may take its next message
	recent  []outcome // of the last messages since the last pause, at most uselessWindow
}

// outcome is what the model last made of a message.
type outcome struct {
	seq uint64
	bad bool
}

// record keeps the newest outcome of each of the last messages. A message that comes again is not one more; it only
// counts where there is still little to go by.
func (s *condition) record(o outcome, attempt int) {
	for i := range s.recent {
		if s.recent[i].seq == o.seq {
			s.recent[i].bad = o.bad
			return
		}
	}
	if len(s.recent) == uselessWindow {
		if attempt > 1 {
			return
		}
		s.recent = append(s.recent[:0], s.recent[1:]...)
	}
	s.recent = append(s.recent, o)
}

// broken reports that useless output is not the messages' fault. Few messages are enough when one is about to run out
// of deliveries: to pause for nothing costs a probe. One alone proves nothing.
func (s *condition) broken(attempt, most int) bool {
	bad := 0
	for _, o := range s.recent {
		if o.bad {
			bad++
		}
	}
	few := 2*attempt > most && len(s.recent) > 1
	return (few || len(s.recent) == uselessWindow) && float64(bad) >= uselessShare*float64(len(s.recent))
}

// own reports that a message which blamed the model before does so again although others were answered since.
func (s *condition) own(seq uint64) bool {
	before, known := s.blamed[seq]
	return known && s.answered > before
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
	if r.pulls != nil && (s.outdated != nil || s.probing()) {
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

// excuse is an item's error as it counts. It may blame something unreachable, or useless output, the first time, and for
// as long as nobody else was answered since it last did. After that the fault is its own, as with a prompt that brings
// the model's server down, and the error is an ordinary one. While the role is paused nobody is answered. An error
// without anybody having been asked, as when a breaker is open, is no sign of a fault at all.
func (r *run) excuse(it *item, err error) error {
	if unasked(err) || !unavailable(err) && !useless(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	own := s.own(it.d.Seq) && !(s.paused && useless(err))
	if s.blamed == nil || len(s.blamed) >= maxBlamed {
		s.blamed = make(map[uint64]int)
	}
	s.blamed[it.d.Seq] = s.answered
	if own {
		return &ownFault{err}
	}
	return err
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

// note keeps the record of useless output. At the limit the role pauses: it gives back what waits, keeps what the model
// was useless for, and tries one message in a while; the first that goes well ends the pause. Other errors say nothing
// about the model, nor does a message whose fault is its own.
func (r *run) note(it *item, err error) {
	bad := useless(err)
	if err != nil && !bad {
		return
	}
	attempt := r.attempt(it)
	r.mu.Lock()
	s := &r.state
	begin := false
	if !bad {
		s.answered++
	}
	if !bad || !s.own(it.d.Seq) {
		s.record(outcome{it.d.Seq, bad}, attempt)
		begin = bad && !s.paused && s.broken(attempt, r.p.MaxDeliver)
	}
	seen, end := len(s.recent), s.paused && !bad
	r.mu.Unlock()
	switch {
	case end:
		r.change(func(s *condition) {
			if s.paused {
				close(s.resumed)
			}
			s.paused, s.resumed, s.recent = false, nil, nil
		})
	case begin:
		r.change(func(s *condition) {
			if !s.paused {
				s.paused, s.resumed = true, make(chan struct{})
			}
			s.probeAt = time.Now().Add(r.p.Probe)
			s.useless = fmt.Errorf("at least %.0f %% of the last %d outputs were useless: %w", 100*uselessShare, seen, err)
		})
		r.giveBackQueued(r.p.BackoffMax)
	}
}

func (r *run) isPaused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.paused
}

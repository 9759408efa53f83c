package bus

import (
	"errors"
	"fmt"
	"time"
)

// condition is what keeps a worker from taking work. All of it is under run.mu.
type condition struct {
	outdated error          // a newer schema was met
	holding  int            // groups of deliveries that wait for something unreachable
	answered int            // deliveries that the handler finished well, ever
	blamed   map[uint64]int // by sequence: how many those were when the message last had to be held
	why      error          // the newest reason of those
	lost     error          // why there is no consumer to pull from

	paused  bool // over useless output
	useless error
	probeAt time.Time // when a probing worker may take its next message
	recent  [uselessWindow]bool
	seen    int // outcomes of the model since the last pause
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
	case s.holding > 0:
		state, reason = Unavailable, s.why
	case s.lost != nil:
		state, reason = Unavailable, s.lost
	case s.paused:
		state, reason = Paused, s.useless
	}
	text := ""
	if reason != nil {
		text = reason.Error()
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
	level.Str("state", string(state)).Str("reason", text).Msg("state changed")
}

// lost notes why there is no consumer to pull from; nil says that there is one.
func (r *run) lost(err error) { r.change(func(s *condition) { s.lost = err }) }

// excuse is an item's error as it counts. It may blame something unreachable the first time, and for as long as nobody
// else was answered since it last did. After that the fault is its own, as with a prompt that brings the model's server
// down, and the error is an ordinary one.
func (r *run) excuse(it *item, err error) error {
	if !unavailable(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	before, known := s.blamed[it.d.Seq]
	if s.blamed == nil || len(s.blamed) >= maxBlamed {
		s.blamed = make(map[uint64]int)
	}
	s.blamed[it.d.Seq] = s.answered
	if known && s.answered > before {
		return &ownFault{err}
	}
	return err
}

// maxBlamed bounds the memory for who had to be held.
const maxBlamed = 4096

// ownFault hides the behaviours of an error that others do not have.
type ownFault struct{ err error }

func (f *ownFault) Error() string { return "while others are answered: " + f.err.Error() }

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
	d := min(r.p.Hold*time.Duration(1+try), 10*r.p.Hold)
	var after interface{ RetryAfter() time.Duration }
	if errors.As(why, &after) {
		d = max(d, min(after.RetryAfter(), 10*r.p.Hold))
	}
	return r.rest(d)
}

// note keeps the record of useless output. At the limit the role pauses: it gives back what waits and tries one
// message in a while; the first that goes well ends the pause. Other errors say nothing about the model.
func (r *run) note(err error) {
	bad := useless(err)
	if err != nil && !bad {
		return
	}
	r.mu.Lock()
	s := &r.state
	if err == nil {
		s.answered++
	}
	s.recent[s.seen%uselessWindow] = bad
	s.seen++
	n := 0
	for _, u := range s.recent {
		if u {
			n++
		}
	}
	begin := bad && !s.paused && s.seen >= uselessWindow && float64(n) >= uselessShare*uselessWindow
	end := s.paused && !bad
	r.mu.Unlock()
	switch {
	case end:
		r.change(func(s *condition) { s.paused, s.seen, s.recent = false, 0, [uselessWindow]bool{} })
	case begin:
		r.change(func(s *condition) {
			s.paused = true
			s.probeAt = time.Now().Add(r.p.Probe)
			s.useless = fmt.Errorf("at least %.0f %% of the last %d outputs were useless: %w", 100*uselessShare, uselessWindow, err)
		})
		r.giveBackQueued(r.p.BackoffMax)
	}
}

func (r *run) isPaused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.paused
}

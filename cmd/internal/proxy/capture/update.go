package capture

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natserr"
)

// errClosed is returned for a change of a run that is closed or does not exist anymore.
var errClosed = errors.New("the run is closed")

const maxConflicts = 30 // number of times that a change of a run is repeated after a conflict

// update changes a stored run by compare-and-swap, and returns the changed run. It may call change several times.
//
//   - If the run does not exist, it stores a changed copy of initial. If initial is nil, it returns nil and errClosed.
//   - If the run is closed, it returns the run and errClosed.
//   - If change returns an error, it stores nothing, and returns the unchanged run and the error.
func (s *Store) update(ctx context.Context, id events.ID, initial *run, change func(*run) error) (*run, error) {
	current := s.recent.newestRun(id, revision{run: initial}) // the first try uses the cache, else initial, and reads nothing
	isLatest := false                                         // current was read from the server
	var conflict error
	for try := range maxConflicts {
		if try > 0 || current.run == nil {
			var err error
			current, err = s.latest(ctx, id, initial)
			if err != nil {
				return nil, err
			}
			isLatest = true
		}
		if current.Closed {
			return current.run, errClosed
		}
		next := current.clone()
		if err := change(next); err != nil {
			if !isLatest {
				continue // with the latest run
			}
			return current.run, err
		}
		next.Block = nil // it never changes, and is stored apart
		rev, err := s.open.put(ctx, openKey(id), next, 0, jetstream.WithExpectLastSequencePerSubject(current.rev))
		next.Block = current.Block
		if err == nil {
			s.recent.putRun(revision{next, rev})
			return next, nil
		}
		if !natserr.IsConflict(err) {
			return nil, err
		}
		conflict = err
		if err := pause(ctx, rand.N(time.Duration(try+1)*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	return nil, conflict
}

// latest returns the stored run. If it does not exist, it returns initial, or errClosed if initial is nil.
func (s *Store) latest(ctx context.Context, id events.ID, initial *run) (revision, error) {
	found, err := s.runs(ctx, []events.ID{id})
	if err != nil {
		return revision{}, err
	}
	r, ok := found[id]
	if !ok {
		r.run = initial
	}
	if r.run == nil {
		return revision{}, errClosed
	}
	return r, nil
}

// pause waits for a time, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// wait describes a wait for a value that may still be stored.
type wait struct {
	tries int
	pause time.Duration // between two tries
}

// until calls ready until it returns true or an error, or until the last try.
func (w wait) until(ctx context.Context, ready func() (bool, error)) error {
	for try := 1; ; try++ {
		ok, err := ready()
		if ok || err != nil || try >= w.tries {
			return err
		}
		if err := pause(ctx, w.pause); err != nil {
			return err
		}
	}
}

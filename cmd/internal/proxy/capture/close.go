package capture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
)

// The end of a run has four steps:
//
//  1. A gateway marks the run: it sets Closing. From then on no call continues the run. endPrevious marks it for the user's next
//     message, ActiveCall.storeEnd for an explicit outcome, closeWith for feedback, and closeIdle after the idle time.
//  2. reportRun sends the report of the run.
//  3. reportRun stores the closed run in the second bucket.
//  4. removeOpen stores the references to the closed run, and removes the open run.
//
// endPrevious and ActiveCall.storeEnd leave the steps 2 to 4 to closeWoken of the same gateway. If a gateway dies between two steps, the run
// stays marked, and after closingTimeout a sweep of any gateway repeats all steps. Two gateways may take the steps at once: their
// reports have the same run id, so they are one execution.

// closeWait is the wait of a closing run for its calls in flight, whose replies the clients may have already.
var closeWait = wait{tries: 60, pause: 50 * time.Millisecond}

// Limits of closing.
const (
	// closingTimeout is how long a sweep leaves a marked run to the gateway that marked it.
	closingTimeout = 30 * time.Second
	// maxClosing is the number of runs that a gateway closes at the same time.
	maxClosing = 8
)

// errTaken is returned if another gateway is closing a run.
var errTaken = errors.New("another gateway closes the run")

// endPrevious marks the run of the turn before a call. If that fails the run ends by its idle time, and the user's words do not count
// for its outcome. A run that waits for tools is not marked, but gets NextBegan: the call may belong to a fork of the conversation, and
// the client may still send the results. Such a run is closed after the idle time.
func (ac *ActiveCall) endPrevious(ctx context.Context) {
	next := steps.ClipTo(ac.call.Request.Items[ac.place.turn].Text, maxText)
	last := part{Items: newItems(ac.place.tail)}
	last.shrink()
	r, err := ac.store.update(ctx, ac.match.previous, nil, func(r *run) error {
		if !r.isOpen() {
			return errClosed
		}
		r.Next, r.Tail = next, last.Items
		r.NextBegan = time.Now()
		if !r.WaitsForTools {
			r.Closing = r.NextBegan
		}
		return nil
	})
	if err == nil && !r.Closing.IsZero() {
		ac.store.wakeFor(r.ID)
	}
}

// closeWith closes a run for feedback, which needs the closed run at once, also if another gateway is closing it. It returns the closed
// run, which has no handle if no reply of it was complete. gaveOutcome reports that the run has the outcome: the outcome is known, and
// no gateway had marked the run before.
func (s *Store) closeWith(ctx context.Context, id events.ID, outcome events.Outcome) (closed *run, gaveOutcome bool, err error) {
	_, err = s.update(ctx, id, nil, func(r *run) error {
		gaveOutcome = r.isOpen() && outcome.Known()
		if gaveOutcome {
			r.Outcome = outcome
		}
		r.Closing = time.Now()
		return nil
	})
	switch {
	case errors.Is(err, errClosed): // reportRun returns the closed run, or errClosed without one
		gaveOutcome = false
	case err != nil:
		return nil, false, err
	}
	closed, err = s.reportRun(ctx, id, closeWait)
	return closed, gaveOutcome, err
}

// closeIdle closes a run that is due, unless another gateway is closing it. It waits for no call in flight.
func (s *Store) closeIdle(ctx context.Context, id events.ID) error {
	_, err := s.update(ctx, id, nil, func(r *run) error {
		if !r.isOpen() && time.Since(r.Closing) < closingTimeout {
			return errTaken
		}
		r.Closing = time.Now()
		return nil
	})
	if err == nil || errors.Is(err, errClosed) {
		_, err = s.reportRun(ctx, id, wait{})
	}
	if errors.Is(err, errTaken) || errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// reportRun reports a marked run, stores that it is closed, and removes the open run. Before, it waits for calls in flight, up to limit; then it
// goes on without them. It returns errClosed if the run does not exist anymore.
func (s *Store) reportRun(ctx context.Context, id events.ID, limit wait) (*run, error) {
	var r *run
	err := limit.until(ctx, func() (bool, error) {
		now, err := s.latest(ctx, id, nil)
		r = now.run
		return err == nil && (r.Closed || !r.isBusy()), err
	})
	if err != nil {
		return nil, err
	}
	if r.Closed {
		return r, s.repeatRemove(ctx, id)
	}
	parts, keys, err := s.parts(ctx, r)
	if err != nil {
		return nil, err
	}
	final := *r
	final.Closed = true
	final.Attempts, final.Parts = nil, nil
	final.Next, final.Tail = "", nil
	if r.Block != nil {
		final.Block = s.storedBlock(ctx, r)
	}
	result := Dropped
	if report := newReport(r, countedParts(parts)); report != nil {
		final.Handle, err = s.report(bus.ContextWithTrace(ctx, r.Trace), report)
		if err != nil {
			return nil, err
		}
		if final.Handle != "" {
			result = Reported
		}
	}
	const bucketAge = 0 // the lifetime of the closed run is the age of the bucket
	rev, err := s.closed.put(ctx, closedKey(id), &final, bucketAge)
	if err != nil {
		return nil, err
	}
	s.count(result) // after the write: a repetition would count again
	s.recent.putRun(revision{&final, rev})
	s.quota.remove(r.Owner)
	if r.Block != nil {
		keys = append(keys, blockKey(id))
	}
	return &final, s.removeOpen(ctx, r, keys)
}

// removeOpen stores the references to a closed run. Then it removes the open run, the references to it, and the given keys of its calls and
// its block. It logs an error of the removal, which a sweep repeats.
func (s *Store) removeOpen(ctx context.Context, open *run, keys []string) error {
	if err := s.putReferences(ctx, s.closedReferences(open)); err != nil {
		return err
	}
	keys = append(keys, open.openReferences()...)
	keys = append(keys, openKey(open.ID))
	if err := s.open.remove(ctx, keys...); err != nil {
		s.log.Debug().Err(err).Msg("closed run of the gateway not removed, a sweep will")
	}
	return nil
}

// repeatRemove calls removeOpen for a closed run, unless the open run is removed already. A gateway may have died after it stored the closed run.
func (s *Store) repeatRemove(ctx context.Context, id events.ID) error {
	var open *run
	err := s.open.last(ctx, []string{openKey(id)}, func(m *direct.Message) (err error) {
		open, err = decode[run](m)
		return err
	})
	if err != nil || open == nil {
		return err
	}
	_, keys, err := s.parts(ctx, open)
	if err != nil {
		return err
	}
	return s.removeOpen(ctx, open, append(keys, blockKey(id)))
}

// report returns the handle of a reported run, or "" if the report is invalid, which no repetition can change.
func (s *Store) report(ctx context.Context, r *events.Report) (events.Handle, error) {
	stored, err := s.reporter.Report(ctx, r)
	var invalid interface{ Invalid() bool }
	if errors.As(err, &invalid) && invalid.Invalid() {
		s.log.Error().Str("reason", err.Error()).Msg("run of the gateway dropped: its report is invalid")
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("report a run: %w", err)
	}
	return stored.Handle, nil
}

// Run closes runs until ctx ends. Runs that this gateway marks are closed at once, other runs by sweeps. Each gateway calls Run.
func (s *Store) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range maxClosing {
		all.Go(func() { s.closeWoken(ctx) })
	}
	defer all.Wait()
	for {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("cannot close idle runs of the gateway, will retry")
		}
		if pause(ctx, s.sweepInterval()) != nil {
			return
		}
	}
}

// sweepInterval returns the time until the next sweep. It is random, so that gateways do not sweep together.
func (s *Store) sweepInterval() time.Duration {
	mean := min(max(s.idle/20, 100*time.Millisecond), 30*time.Second)
	return mean/2 + rand.N(mean)
}

// wakeFor lets Run close a run. If too many wait, the next sweep closes it.
func (s *Store) wakeFor(id events.ID) {
	select {
	case s.wake <- id:
	default:
	}
}

// closeWoken closes the runs that this gateway has marked.
func (s *Store) closeWoken(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-s.wake:
			if _, err := s.reportRun(ctx, id, closeWait); err != nil && !errors.Is(err, errClosed) && ctx.Err() == nil {
				s.log.Warn().Err(err).Msg("cannot report a run of the gateway, will retry")
			}
		}
	}
}

// sweep closes the runs that are due at a time, and counts the stored values of each owner for the quota.
func (s *Store) sweep(ctx context.Context, now time.Time) error {
	var due []events.ID
	values := map[string]int{} // by owner
	err := s.open.read(ctx, openKey("*"), func(m *direct.Message) error {
		r, err := decode[run](m)
		if err != nil || r == nil {
			return nil //nolint:nilerr // an unreadable run is lost
		}
		values[r.Owner] += r.countValues()
		if r.isDue(now, s.idle) {
			due = append(due, r.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.quota.set(values)
	var closing errgroup.Group
	closing.SetLimit(maxClosing)
	for _, id := range due {
		closing.Go(func() error { return s.closeIdle(ctx, id) })
	}
	return closing.Wait()
}

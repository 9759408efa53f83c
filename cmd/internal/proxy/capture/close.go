package capture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
)

// The end of a run has four steps:
//
//  1. A gateway marks the run: it sets Closing. From then on no call continues the run. endTurn marks it for the user's next
//     message, storeEnd for an explicit outcome, closeRun for feedback and after the idle time.
//  2. reportRun sends the report of the run.
//  3. reportRun stores the closed run in the second bucket.
//  4. reportRun removes the open run.
//
// endTurn and storeEnd leave the steps 2 to 4 to closeWoken of the same gateway. If a gateway dies between two steps, the run stays
// marked, and after closingTimeout a sweep of any gateway repeats all steps. Two gateways may take the steps at once: their reports
// have the same run id, so they are one execution.

// Times of closing.
const (
	// settleTime is how long the closing of a run waits for its calls in flight: their replies may be complete already.
	settleTime = 3 * time.Second
	// closingTimeout is how long a sweep leaves a marked run to the gateway that marked it.
	closingTimeout = 30 * time.Second
	// maxClosing is the number of runs that a gateway closes at the same time.
	maxClosing = 8
)

// errTaken is returned if another gateway is closing a run.
var errTaken = errors.New("another gateway closes the run")

// wakeFor lets Run close a run. If too many wait, the next sweep closes it.
func (s *Store) wakeFor(id events.ID) {
	select {
	case s.wake <- id:
	default:
	}
}

// endTurn marks the run of the turn before a call. If that fails the run ends by its idle time, and the user's words do not count
// for its outcome. A run that waits for tools is not marked, but gets Ended: the call may belong to a fork of the conversation, and
// the client may still send the results. Such a run is closed after the idle time.
func (s *Store) endTurn(ctx context.Context, o *Open) {
	next := clip(o.call.Request.Items[o.place.turn].Text, maxText)
	last := part{Items: newItems(o.place.tail)}
	last.shrink()
	r, err := s.update(ctx, o.previous, nil, func(r *run) error {
		if !r.open() {
			return errClosed
		}
		r.Next, r.Tail = next, last.Items
		r.Ended = time.Now()
		if !r.Waits {
			r.Closing = r.Ended
		}
		return nil
	})
	if err == nil && !r.Closing.IsZero() {
		s.wakeFor(o.previous)
	}
}

// closeRun marks a run, reports it and stores that it is closed. It returns the closed run, which has no handle if no reply of it
// was complete. wasOpen reports that no gateway had marked the run before. Then a known outcome becomes the outcome of the run.
//
// A sweep sets idle. Then closeRun waits for no call in flight, and returns errTaken if another gateway is closing the run. Feedback
// needs the closed run at once, so without idle closeRun takes the steps beside the other gateway.
func (s *Store) closeRun(ctx context.Context, id events.ID, outcome events.Outcome, idle bool) (closed *run, wasOpen bool, err error) {
	r, err := s.update(ctx, id, nil, func(r *run) error {
		wasOpen = r.open()
		if idle && !wasOpen && time.Since(r.Closing) < closingTimeout {
			return errTaken
		}
		if wasOpen && outcome.Known() {
			r.Outcome = outcome
		}
		r.Closing = time.Now()
		return nil
	})
	if errors.Is(err, errClosed) && r != nil {
		// A gateway may have died after it stored the closed run, before it removed the open one.
		return r, false, s.open.remove(ctx, openKey(id))
	}
	if err != nil {
		return nil, false, err
	}
	closed, err = s.reportRun(ctx, id, !idle)
	return closed, wasOpen, err
}

// reportRun reports a marked run, stores that it is closed, and removes the open run. With wait set it waits for calls in flight.
func (s *Store) reportRun(ctx context.Context, id events.ID, wait bool) (*run, error) {
	limit := time.Duration(0)
	if wait {
		limit = settleTime
	}
	r, err := s.settled(ctx, id, limit)
	if err != nil || r.Closed {
		return r, err
	}
	calls, keys, err := s.storedParts(ctx, r)
	if err != nil {
		return nil, err
	}
	final := r.clone()
	if report := newReport(r, calls); report != nil {
		final.Handle, err = s.report(bus.ContextWithTrace(ctx, r.Trace), report)
		if err != nil {
			return nil, err
		}
	}
	if final.Handle == "" {
		s.count(Dropped)
	} else {
		s.count(Reported)
	}
	final.Closed = true
	final.Attempts = nil
	final.Parts = nil
	final.Next = ""
	final.Tail = nil
	rev, err := s.closed.put(ctx, closedKey(id), final, 0)
	if err != nil {
		return nil, err
	}
	s.recent.putRun(final, rev)
	if err := s.referToClosed(ctx, r); err != nil {
		return nil, err
	}
	s.quota.remove(r.Owner)
	keys = append(keys, r.references()...)
	keys = append(keys, openKey(id))
	if err := s.open.remove(ctx, keys...); err != nil {
		s.log.Debug().Err(err).Msg("closed run of the gateway not removed, a sweep will")
	}
	return final, nil
}

// references returns the keys of the references to an open run.
func (r *run) references() []string {
	keys := slices.Clone(r.Slots)
	for _, a := range r.Attempts {
		if a.Reply != "" {
			keys = append(keys, a.Reply+"."+string(r.ID))
		}
	}
	return keys
}

// referToClosed stores the references by which the next turn finds the closed run: its beginning and its last reply.
func (s *Store) referToClosed(ctx context.Context, r *run) error {
	writes := []write{{&s.closed, r.Start, string(r.ID), referenceTTL}}
	if a := r.known(r.lastReply()); a != nil {
		writes = append(writes, write{bucket: &s.closed, key: a.Reply, token: string(r.ID), ttl: referenceTTL})
	}
	return s.refer(ctx, reference{Run: r.ID, Call: r.lastReply()}, writes)
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

// settled returns a run as soon as none of its calls is in flight, at the latest after limit. A client may send its next message
// before the last reply is stored.
func (s *Store) settled(ctx context.Context, id events.ID, limit time.Duration) (*run, error) {
	const interval = 50 * time.Millisecond
	for waited := time.Duration(0); ; waited += interval {
		found, err := s.runs(ctx, []events.ID{id})
		if err != nil {
			return nil, err
		}
		r := found[id].run
		switch {
		case r == nil:
			return nil, errClosed
		case r.Closed || !r.busy() || waited >= limit:
			return r, nil
		}
		if err := pause(ctx, interval); err != nil {
			return nil, err
		}
	}
}

// Run closes runs until ctx ends: those that this gateway marks at once, idle ones and those of dead gateways by sweeps. Each gateway
// calls it.
func (s *Store) Run(ctx context.Context) error {
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
			return nil
		}
	}
}

// sweepInterval returns the time until the next sweep. It is random, so that gateways do not sweep together.
func (s *Store) sweepInterval() time.Duration {
	mean := min(max(s.idle/20, 100*time.Millisecond), 30*time.Second)
	return mean/2 + rand.N(mean)
}

// closeWoken closes the runs that this gateway has marked.
func (s *Store) closeWoken(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-s.wake:
			if _, err := s.reportRun(ctx, id, true); err != nil && !errors.Is(err, errClosed) && ctx.Err() == nil {
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
		values[r.Owner] += r.size()
		if r.due(now, s.idle) {
			due = append(due, r.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.quota.set(values)
	errs := make([]error, len(due))
	slots := make(chan struct{}, maxClosing)
	var all sync.WaitGroup
	for i, id := range due {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			_, _, err := s.closeRun(ctx, id, events.Outcome{}, true)
			if errors.Is(err, errTaken) || errors.Is(err, errClosed) {
				return // another gateway closes the run
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

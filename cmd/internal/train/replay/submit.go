package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// submitter submits the tasks of a run and waits until their samples are complete.
type submitter struct {
	tracker *tracker
	ended   error // not nil for a run that has ended: submit returns it for a task without a result

	mu        sync.Mutex
	submitted map[events.ID]bool // tasks in the stream TASKS, now or when this process began
}

// openSubmitter opens a submitter and its tracker. Close the tracker after use.
func openSubmitter(ctx context.Context, conn *bus.Conn, b playbook.Book, o Options) (*submitter, error) {
	dead, err := conn.JetStream().Stream(ctx, events.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDead, err)
	}
	// Pending tasks are read before their outcomes. A task that is neither pending nor answered was then never submitted, or a
	// generator with another model has discarded it.
	pending, err := conn.Events.PendingTasks(ctx, b)
	if err != nil {
		return nil, err
	}
	s := &submitter{submitted: map[events.ID]bool{}}
	for _, id := range pending {
		s.submitted[id] = true
	}
	s.tracker, err = openTracker(ctx, conn, b, dead.CachedInfo().State.LastSeq, o)
	return s, err
}

// maxPending is the number of tasks of a run that wait for a generator at the same time. Live traffic shares the
// queue.
const maxPending = 256

// run submits the tasks that were not submitted before and waits until the samples of all of them are complete. It calls progress,
// unless that is nil, with the number of complete samples. At most maxPending tasks are open: submitted and not complete.
func (s *submitter) run(ctx context.Context, tasks []events.Task, progress func(done int)) ([]sampleResult, error) {
	results := make([]sampleResult, len(tasks))
	done := 0 // number of complete samples
	collect := func(i int) (result sampleResult, complete bool) {
		result, complete = s.tracker.result(&tasks[i])
		if complete {
			results[i] = result
			done++
		}
		return result, complete
	}
	var open []int // indices of tasks
	next := 0      // the first task that was never open
	for {
		s.tracker.mu.Lock()
		changed, err := s.tracker.changed, s.tracker.err
		s.tracker.mu.Unlock()
		if err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(i int) bool {
			_, complete := collect(i)
			return complete
		})
		var toSubmit []*events.Task
		for ; next < len(tasks) && len(open) < maxPending; next++ {
			result, complete := collect(next)
			if complete {
				continue
			}
			open = append(open, next)
			if t := &tasks[next]; result.answer == nil && !s.isSubmitted(t) {
				toSubmit = append(toSubmit, t)
			}
		}
		if err := errors.Join(s.submit(ctx, toSubmit), s.resubmit(ctx)); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(done)
		}
		if done == len(tasks) {
			return results, nil
		}
		if len(toSubmit) > 0 {
			continue // some may be complete by now
		}
		if err := s.tracker.wait(ctx, changed, func() string { return s.waitingRole(tasks, open) }); err != nil {
			return nil, err
		}
	}
}

// waitingRole returns the role that does the next step of the first open task.
func (s *submitter) waitingRole(tasks []events.Task, open []int) string {
	if len(open) == 0 {
		return events.RoleGenerator
	}
	if result, _ := s.tracker.result(&tasks[open[0]]); result.answer == nil {
		return events.RoleGenerator
	}
	return events.RoleReflector
}

func (s *submitter) isSubmitted(t *events.Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.submitted[t.EventID()]
}

// publishConcurrency is the number of concurrent publishes. The server syncs them to disk together.
const publishConcurrency = 16

// submit publishes tasks, several at the same time.
func (s *submitter) submit(ctx context.Context, tasks []*events.Task) error {
	if s.ended != nil && len(tasks) > 0 {
		return s.ended
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(publishConcurrency)
	for _, t := range tasks {
		all.Go(func() error { return s.submitOne(ctx, t) })
	}
	return all.Wait()
}

func (s *submitter) submitOne(ctx context.Context, t *events.Task) error {
	t.Created = time.Now().UTC()
	r, err := s.tracker.conn.Publish(ctx, t, bus.PublishOptions{})
	if err == nil && r.Duplicate { // neither pending nor answered: a generator has discarded the first copy
		_, err = s.tracker.conn.Publish(ctx, t, newCopy())
	}
	if err != nil {
		return fmt.Errorf("submit task %q: %w", t.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submitted[t.EventID()] = true
	return nil
}

// resubmit publishes events again whose workers crashed, unless their result is stored by now.
func (s *submitter) resubmit(ctx context.Context) error {
	for _, e := range s.tracker.takeResubmits() {
		if _, err := s.tracker.conn.Publish(ctx, e, newCopy()); err != nil {
			return fmt.Errorf("resubmit %s %s: %w", e.Kind(), e.EventID(), err)
		}
	}
	return nil
}

// newCopy returns the options for another copy of an event. The time makes it differ from the copies of earlier processes.
func newCopy() bus.PublishOptions {
	return bus.PublishOptions{Repeat: true, Copy: int(time.Now().UnixNano())}
}

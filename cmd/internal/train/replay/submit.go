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
	refusal error // set if the run has ended: submit accepts no task and returns this error

	mu        sync.Mutex
	submitted map[events.ID]bool // see isSubmitted
}

// openSubmitter opens a submitter and its tracker. Close the tracker after use.
func openSubmitter(ctx context.Context, conn *bus.Conn, b playbook.Book, o Options) (*submitter, error) {
	dead, err := conn.JetStream().Stream(ctx, events.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDead, err)
	}
	// Pending tasks are read before their results, so that no task leaves the queue unseen in between. Without a result, a task that is not
	// pending was never submitted, or a generator with another model has discarded it.
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

// run submits the tasks that were not submitted before and waits until the samples of all of them are complete. It calls progress with the
// number of complete samples. At most maxPending tasks are open: submitted and not complete.
func (s *submitter) run(ctx context.Context, tasks []events.Task, progress func(done int)) ([]sampleResult, error) {
	results := make([]sampleResult, len(tasks))
	var open []int // indices of tasks
	next := 0      // index of the first task that was never open
	for {
		// The channel is read before the results, so that a change after them is not missed.
		s.tracker.mu.Lock()
		changed, err := s.tracker.changed, s.tracker.err
		s.tracker.mu.Unlock()
		if err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(i int) (complete bool) {
			results[i], complete = s.tracker.result(&tasks[i])
			return complete
		})
		var toSubmit []*events.Task
		for ; next < len(tasks) && len(open) < maxPending; next++ {
			t := &tasks[next]
			result, complete := s.tracker.result(t)
			results[next] = result
			if complete {
				continue
			}
			open = append(open, next)
			if result.answer == nil && !s.isSubmitted(t) {
				toSubmit = append(toSubmit, t)
			}
		}
		if err := errors.Join(s.submit(ctx, toSubmit), s.resubmit(ctx)); err != nil {
			return nil, err
		}
		progress(next - len(open))
		if next == len(tasks) && len(open) == 0 {
			return results, nil
		}
		if len(toSubmit) > 0 { // samples may be complete by now
			continue
		}
		if err := s.tracker.wait(ctx, changed, func() string { return waitingRole(results, open) }); err != nil {
			return nil, err
		}
	}
}

// waitingRole returns the role that does the next step of the first open task.
func waitingRole(results []sampleResult, open []int) string {
	if results[open[0]].answer == nil {
		return events.RoleGenerator
	}
	return events.RoleReflector
}

// isSubmitted reports whether a task is in the stream TASKS, or was there during this process.
func (s *submitter) isSubmitted(t *events.Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.submitted[t.EventID()]
}

// publishConcurrency is the number of concurrent publishes. The server syncs them to disk together.
const publishConcurrency = 16

// submit publishes tasks, several at the same time. It returns the refusal, if there is one and a task.
func (s *submitter) submit(ctx context.Context, tasks []*events.Task) error {
	if s.refusal != nil && len(tasks) > 0 {
		return s.refusal
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(publishConcurrency)
	for _, t := range tasks {
		all.Go(func() error { return s.submitOne(ctx, t) })
	}
	return all.Wait()
}

// submitOne publishes a task that is neither pending nor answered.
func (s *submitter) submitOne(ctx context.Context, t *events.Task) error {
	t.Created = time.Now().UTC()
	r, err := s.tracker.conn.Publish(ctx, t, bus.PublishOptions{})
	if err == nil && r.Duplicate { // a generator with another model has discarded the first copy
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

// resubmit publishes another copy of the dead-lettered events that are to be submitted again; see deadLetters.
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

package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"

	book "debrief/playbook"
)

// Runner submits tasks to the workers of one playbook, or of several, and waits for the results.
type Runner struct {
	conn *bus.Conn
	book book.Book

	mu    sync.Mutex
	ended map[events.ID]TaskResult // by execution id
	lost  map[string]string        // reasons of dead letters of reflections and edits, by stream and sequence
	moved chan struct{}            // closed and replaced on each new result
}

// TaskResult is the result of one task: an answer or a dead letter.
type TaskResult struct {
	answer  string
	Right   bool
	version uint64
	Shown   int
	cited   []book.BulletID
	Usage   chat.Usage
	dead    string // reason of the dead letter; "" if there is an answer
}

// Watch starts to follow the results of a playbook, of all playbooks if b is empty. Cancel the context to stop it; done
// waits until it has stopped.
func Watch(ctx context.Context, conn *bus.Conn, b book.Book) (t *Runner, done func() error) {
	t = &Runner{conn: conn, book: b, ended: map[events.ID]TaskResult{}, lost: map[string]string{}, moved: make(chan struct{})}
	var all sync.WaitGroup
	var errs [2]error
	all.Go(func() {
		errs[0] = conn.Read(ctx, events.StreamExecutions, events.KindExecution.Subject(b), func(s bus.Stored) error {
			if e, ok := s.Event.(*events.Execution); ok {
				t.end(e.ID, TaskResult{
					answer: e.Answer, Right: e.Outcome.Label == events.Success, version: e.Version, Shown: len(e.Shown),
					cited: e.Cited, Usage: e.Usage,
				})
			}
			return nil
		})
	})
	all.Go(func() {
		errs[1] = conn.Read(ctx, events.StreamDead, events.DeadSubject("", b), func(s bus.Stored) error {
			if l, ok := s.Event.(*events.DeadLetter); ok {
				t.letter(l)
			}
			return nil
		})
	})
	return t, func() error {
		all.Wait()
		if err := errors.Join(errs[:]...); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// end records a result. Of several answers to a task the first one counts.
func (t *Runner) end(id events.ID, e TaskResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.ended[id]; ok && old.dead == "" {
		return
	}
	t.ended[id] = e
	close(t.moved)
	t.moved = make(chan struct{})
}

// letter records a dead letter.
func (t *Runner) letter(l *events.DeadLetter) {
	if e, err := events.Decode(l.Subject, l.Header, l.Data); err == nil {
		if task, ok := e.(*events.Task); ok {
			t.end(events.ExecutionID(task.Book, task.Owner, task.ID, task.Origin.Round), TaskResult{dead: l.Reason})
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[fmt.Sprintf("%s %d", l.Stream, l.Seq)] = l.Reason
}

// Ask submits tasks, waits for all results and returns them in the order of the tasks. It calls progress, unless nil,
// with the number of results so far.
func (t *Runner) Ask(ctx context.Context, tasks []events.Task, progress func(done int)) ([]TaskResult, error) {
	ids := make([]events.ID, len(tasks))
	open := make([]int, len(tasks)) // indexes of the tasks without a result
	for i := range tasks {
		tasks[i].Book, tasks[i].Created = cmp.Or(t.book, tasks[i].Book), time.Now().UTC()
		if _, err := t.conn.Publish(ctx, &tasks[i], bus.PublishOptions{}); err != nil {
			return nil, fmt.Errorf("submit task %q: %w", tasks[i].ID, err)
		}
		ids[i], open[i] = events.ExecutionID(tasks[i].Book, tasks[i].Owner, tasks[i].ID, tasks[i].Origin.Round), i
	}
	endings := make([]TaskResult, len(tasks))
	for {
		t.mu.Lock()
		moved := t.moved
		open = slices.DeleteFunc(open, func(i int) bool {
			e, ok := t.ended[ids[i]]
			if ok {
				endings[i] = e
			}
			return ok
		})
		t.mu.Unlock()
		if progress != nil {
			progress(len(tasks) - len(open))
		}
		if len(open) == 0 {
			return endings, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-moved:
		}
	}
}

// WaitIdle waits until the roles are idle.
func (t *Runner) WaitIdle(ctx context.Context, roles ...string) error {
	return WaitIdle(ctx, t.conn, roles...)
}

// WaitIdle waits until each role is idle, one after the other: roles are in the order of the pipeline. It returns the error
// of ctx if that ends first.
func WaitIdle(ctx context.Context, conn *bus.Conn, roles ...string) error {
	for _, role := range roles {
		for {
			idle, err := conn.Idle(ctx, role)
			if err != nil {
				return err
			}
			if idle {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// Accuracy returns the share of right answers. Partial scores do not count.
func Accuracy(results []TaskResult) float64 {
	if len(results) == 0 {
		return 0
	}
	right := 0
	for _, e := range results {
		if e.Right {
			right++
		}
	}
	return float64(right) / float64(len(results))
}

// Forget removes the results of tasks. It keeps dead letters, which losses counts.
func (t *Runner) Forget(tasks []events.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range tasks {
		id := events.ExecutionID(tasks[i].Book, tasks[i].Owner, tasks[i].ID, tasks[i].Origin.Round)
		if t.ended[id].dead == "" {
			delete(t.ended, id)
		}
	}
}

// Losses returns the number of dead letters.
func (t *Runner) Losses() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.lost)
	for _, e := range t.ended {
		if e.dead != "" {
			n++
		}
	}
	return n
}

// FirstLoss returns the reason of one of the dead letters, "" without any.
func (t *Runner) FirstLoss() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, reason := range t.lost {
		return reason
	}
	for _, e := range t.ended {
		if e.dead != "" {
			return e.dead
		}
	}
	return ""
}

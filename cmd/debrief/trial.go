package main

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

// trial hands tasks to the workers of one book, or of many, and waits for what becomes of them.
type trial struct {
	conn *bus.Conn
	book book.Book

	mu    sync.Mutex
	ended map[events.ID]ending // by execution id
	lost  map[string]string    // reflections and edits that became dead letters: what, and why
	moved chan struct{}        // closed and replaced when something ended
}

// ending is what became of one task.
type ending struct {
	answer  string
	right   bool
	version uint64
	shown   int
	cited   []book.BulletID
	usage   chat.Usage
	dead    string // why there is no answer
}

// watch begins to follow a book, every book if it is empty; done returns when it has stopped, after the context has
// ended.
func watch(ctx context.Context, conn *bus.Conn, b book.Book) (t *trial, done func() error) {
	t = &trial{conn: conn, book: b, ended: map[events.ID]ending{}, lost: map[string]string{}, moved: make(chan struct{})}
	var all sync.WaitGroup
	var errs [2]error
	all.Go(func() {
		errs[0] = conn.Read(ctx, events.StreamExecutions, events.KindExecution.Subject(b), func(s bus.Stored) error {
			if e, ok := s.Event.(*events.Execution); ok {
				t.end(e.ID, ending{
					answer: e.Answer, right: e.Outcome.Label == events.Success, version: e.Version, shown: len(e.Shown),
					cited: e.Cited, usage: e.Usage,
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

// end notes an execution. The first one counts.
func (t *trial) end(id events.ID, e ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.ended[id]; ok && old.dead == "" {
		return
	}
	t.ended[id] = e
	close(t.moved)
	t.moved = make(chan struct{})
}

func (t *trial) letter(l *events.DeadLetter) {
	if e, err := events.Decode(l.Subject, l.Header, l.Data); err == nil {
		if task, ok := e.(*events.Task); ok {
			t.end(events.ExecutionID(task.Book, task.ID, task.Origin.Round), ending{dead: l.Reason})
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[fmt.Sprintf("%s %d", l.Stream, l.Seq)] = l.Reason
}

// ask hands in tasks and returns their endings in order, when all have ended. Progress, if given, is told how many.
func (t *trial) ask(ctx context.Context, tasks []events.Task, progress func(done int)) ([]ending, error) {
	ids := make([]events.ID, len(tasks))
	open := make([]int, len(tasks)) // the tasks that have not ended
	for i := range tasks {
		tasks[i].Book, tasks[i].Created = cmp.Or(t.book, tasks[i].Book), time.Now().UTC()
		if _, err := t.conn.Publish(ctx, &tasks[i], bus.Marks{}); err != nil {
			return nil, fmt.Errorf("hand in task %q: %w", tasks[i].ID, err)
		}
		ids[i], open[i] = events.ExecutionID(tasks[i].Book, tasks[i].ID, tasks[i].Origin.Round), i
	}
	endings := make([]ending, len(tasks))
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

// settled waits until roles have nothing left to do.
func (t *trial) settled(ctx context.Context, roles ...string) error {
	return settled(ctx, t.conn, roles...)
}

func settled(ctx context.Context, conn *bus.Conn, roles ...string) error {
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

// accuracy is the share of right answers. A score says more of a wrong one than that, and is no accuracy.
func accuracy(endings []ending) float64 {
	if len(endings) == 0 {
		return 0
	}
	right := 0
	for _, e := range endings {
		if e.right {
			right++
		}
	}
	return float64(right) / float64(len(endings))
}

package replay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// tracker follows the streams of a playbook and keeps what a run needs of its events: answers, reflections and dead letters. It works
// until close is called. It is safe for concurrent use.
type tracker struct {
	conn    *bus.Conn
	book    playbook.Book
	runName string
	ctx     context.Context
	stop    context.CancelFunc
	done    sync.WaitGroup

	onStall func(waitsFor string)

	lastOldLetter uint64 // sequence of the last dead letter from before this process; see OtherModelError

	mu        sync.Mutex
	changed   chan struct{}               // closed and replaced on every change
	err       error                       // of following a stream
	answers   map[events.ID]*answer       // by execution id
	reflected map[events.ID]events.Handle // by execution id
	dead      deadLetters

	generatorUsage report.Usage
	reflectorUsage report.Usage
	models         []string // of the answers, in the order of their first answers
}

// openTracker reads the stored events and starts to follow new ones.
func openTracker(ctx context.Context, conn *bus.Conn, b playbook.Book, lastOldLetter uint64, o Options) (*tracker, error) {
	ctx, stop := context.WithCancel(ctx)
	l := &tracker{
		conn: conn, book: b, runName: o.Name, ctx: ctx, stop: stop, onStall: o.sendStall, changed: make(chan struct{}), lastOldLetter: lastOldLetter,
		answers: map[events.ID]*answer{}, reflected: map[events.ID]events.Handle{}, dead: newDeadLetters(),
	}
	for _, s := range []struct {
		stream, subject string
		add             func(bus.Stored)
	}{
		{events.StreamDead, events.DeadSubject("", b), l.addDeadLetter},
		{events.StreamExecutions, events.KindExecution.Subject(b), l.addExecution},
		{events.StreamReflections, events.KindReflection.Subject(b), l.addReflection},
	} {
		last := uint64(0)
		err := conn.Events.ReadStored(ctx, s.stream, s.subject, func(st bus.Stored) error {
			last = st.Seq
			s.add(st)
			return nil
		})
		if err != nil {
			l.close()
			return nil, err
		}
		l.done.Go(func() {
			err := conn.Events.ReadFrom(ctx, s.stream, s.subject, last+1, func(st bus.Stored) error {
				return l.handle(st, s.add)
			})
			if err != nil && ctx.Err() == nil {
				l.fail(err)
			}
		})
	}
	return l, nil
}

// close stops following. It can be called more than once.
func (l *tracker) close() {
	l.stop()
	l.done.Wait()
}

// fail ends the run with its first error.
func (l *tracker) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.wake()
}

// wake wakes the waiting goroutines. The caller holds the lock.
func (l *tracker) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// handle passes a new event to its handler. It returns an error if the event was temporarily unreadable, because the tracker would not
// read it again. Handlers ignore an invalid event: its worker dead-letters it.
func (l *tracker) handle(s bus.Stored, add func(bus.Stored)) error {
	if bus.Unreachable(s.Err) {
		return fmt.Errorf("read event %d: %w", s.Seq, s.Err)
	}
	add(s)
	return nil
}

func (l *tracker) addExecution(s bus.Stored) {
	e, ok := s.Event.(*events.Execution)
	if !ok || e.Origin.Run != l.runName {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generatorUsage = l.generatorUsage.Plus(report.UsageOf(e.Usage))
	if l.answers[e.ID] != nil {
		return // the first one counts
	}
	l.answers[e.ID] = newAnswer(s.Seq, e)
	if e.Model != "" && !slices.Contains(l.models, e.Model) {
		l.models = append(l.models, e.Model)
	}
	l.wake()
}

func (l *tracker) addReflection(s bus.Stored) {
	ref, ok := s.Event.(*events.Reflection)
	if !ok || ref.Feedback != "" || ref.Origin.Run != l.runName {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reflected[ref.Execution] != "" {
		return
	}
	l.reflectorUsage = l.reflectorUsage.Plus(report.UsageOf(ref.Usage))
	l.reflected[ref.Execution] = events.NewHandle(s.Seq, ref.ID)
	l.wake()
}

// reflectionOn returns the handle of the stored reflection on an execution, "" without one.
func (l *tracker) reflectionOn(id events.ID) events.Handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reflected[id]
}

// coalesce is the time to wait for further changes after a change, because many come together.
const coalesce = time.Millisecond

// wait waits until the next change closes the channel changed. It calls onStall with the result of role after stallTime.
func (l *tracker) wait(ctx context.Context, changed <-chan struct{}, role func() string) error {
	stalled := time.NewTimer(stallTime)
	defer stalled.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-changed:
			time.Sleep(coalesce)
			return nil
		case <-stalled.C:
			l.onStall(role())
		}
	}
}

// usage returns the model usage of the run so far, and the models of its answers.
func (l *tracker) usage() (generator, reflector report.Usage, models []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generatorUsage, l.reflectorUsage, slices.Clone(l.models)
}

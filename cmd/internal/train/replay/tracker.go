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

	onStall func(role string) // is called when the run waits for a role that makes no progress

	lastOldLetter uint64 // sequence of the last dead letter from before this process; see OtherModelError

	mu        sync.Mutex
	changed   chan struct{}               // closed and replaced on every change
	err       error                       // ends the run; see fail
	answers   map[events.ID]*answer       // by execution id
	reflected map[events.ID]events.Handle // by execution id
	dead      deadLetters

	used           usage
	reflectionsEnd uint64 // sequence of the last reflection that was read
}

// usage is the model usage of a run.
type usage struct {
	generator report.Usage
	reflector report.Usage
	models    []string // of the answers, in the order of their first answers
}

// openTracker reads the stored events and starts to follow new ones. The end of ctx stops the tracker.
func openTracker(ctx context.Context, conn *bus.Conn, b playbook.Book, lastOldLetter uint64, o Options) (*tracker, error) {
	ctx, stop := context.WithCancel(ctx)
	tr := &tracker{
		conn: conn, book: b, runName: o.Name, ctx: ctx, stop: stop, onStall: o.sendStall, changed: make(chan struct{}), lastOldLetter: lastOldLetter,
		answers: map[events.ID]*answer{}, reflected: map[events.ID]events.Handle{},
		dead: deadLetters{reasons: map[events.ID]string{}, resubmits: map[events.ID]events.Event{}, copies: map[events.ID]int{}},
	}
	for _, s := range []struct {
		stream, subject string
		add             func(bus.Stored)
	}{
		{events.StreamDead, events.DeadSubject("", b), tr.addDeadLetter},
		{events.StreamExecutions, events.KindExecution.Subject(b), tr.addExecution},
		{events.StreamReflections, events.KindReflection.Subject(b), tr.addReflection},
	} {
		last, pause := uint64(0), minPause
		read := func(st bus.Stored) error {
			if bus.Unreachable(st.Err) { // the tracker would not read the event again
				return fmt.Errorf("read event %d: %w", st.Seq, st.Err)
			}
			last, pause = st.Seq, minPause
			s.add(st) // ignores an invalid event, which its worker dead-letters
			return nil
		}
		readNew := func() error { return conn.Events.Scan(ctx, s.stream, s.subject, last+1, read) }
		if err := readNew(); err != nil {
			tr.close()
			return nil, err
		}
		tr.done.Go(func() {
			for events.Sleep(ctx, pause) == nil {
				pause = min(2*pause, maxPause)
				if err := untilAnswered(ctx, readNew); err != nil && ctx.Err() == nil {
					tr.fail(err)
					return
				}
			}
		})
	}
	return tr, nil
}

// Limits of the pause between two reads of a stream. It doubles while no events arrive.
const (
	minPause = 10 * time.Millisecond
	maxPause = 160 * time.Millisecond
)

// maxUnanswered is the number of attempts at a read in a row that a server may leave without an answer, for example while it restarts. Each
// takes up to five seconds. silencePause is the pause between two attempts, and a read that lasts longer than longRead was answered.
const (
	maxUnanswered = 20
	silencePause  = time.Second
	longRead      = 30 * time.Second
)

// untilAnswered repeats a read that the server does not answer. A repeated read must begin after the last message that was read.
func untilAnswered(ctx context.Context, read func() error) error {
	for unanswered := 0; ; {
		began := time.Now()
		err := read()
		if !bus.Unreachable(err) {
			return err
		}
		unanswered++
		if time.Since(began) > longRead {
			unanswered = 1
		}
		if unanswered >= maxUnanswered || events.Sleep(ctx, silencePause) != nil {
			return err
		}
	}
}

// close stops following. It can be called more than once.
func (tr *tracker) close() {
	tr.stop()
	tr.done.Wait()
}

// fail makes the run end with an error. The first error counts.
func (tr *tracker) fail(err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.err == nil {
		tr.err = err
	}
	tr.wake()
}

// wake wakes the waiting goroutines. The caller holds the lock.
func (tr *tracker) wake() {
	close(tr.changed)
	tr.changed = make(chan struct{})
}

func (tr *tracker) addExecution(s bus.Stored) {
	e, ok := s.Event.(*events.Execution)
	if !ok || e.Origin.Run != tr.runName {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.used.generator = tr.used.generator.Plus(report.UsageOf(e.Usage))
	if tr.answers[e.ID] != nil { // of several copies of an execution, the first one counts
		return
	}
	tr.answers[e.ID] = newAnswer(s.Seq, e)
	if e.Model != "" && !slices.Contains(tr.used.models, e.Model) {
		tr.used.models = append(tr.used.models, e.Model)
	}
	tr.wake()
}

func (tr *tracker) addReflection(s bus.Stored) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.reflectionsEnd = s.Seq
	tr.wake()
	ref, ok := s.Event.(*events.Reflection)
	if !ok || ref.Feedback != "" || ref.Origin.Run != tr.runName {
		return
	}
	tr.used.reflector = tr.used.reflector.Plus(report.UsageOf(ref.Usage))
	if tr.reflected[ref.Execution] != "" { // of several copies of a reflection, the first one counts
		return
	}
	tr.reflected[ref.Execution] = events.NewHandle(s.Seq, ref.ID)
}

// waitReflections waits until the reflections up to a sequence were read, so that usage includes them.
func (tr *tracker) waitReflections(ctx context.Context, seq uint64) error {
	for {
		tr.mu.Lock()
		changed, err := tr.changed, tr.err
		read := tr.reflectionsEnd >= seq
		tr.mu.Unlock()
		if err != nil || read {
			return err
		}
		if err := tr.wait(ctx, changed, func() string { return events.RoleReflector }); err != nil {
			return err
		}
	}
}

// reflectionOn returns the handle of the stored reflection on an execution, "" without one.
func (tr *tracker) reflectionOn(id events.ID) events.Handle {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.reflected[id]
}

// coalesce is the time to wait for further changes after a change, because many come together.
const coalesce = time.Millisecond

// wait waits until the next change closes the channel changed. It calls onStall with the result of role after stallTime.
func (tr *tracker) wait(ctx context.Context, changed <-chan struct{}, role func() string) error {
	stalled := time.NewTimer(stallTime)
	defer stalled.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tr.ctx.Done():
			return tr.ctx.Err()
		case <-changed:
			time.Sleep(coalesce)
			return nil
		case <-stalled.C:
			tr.onStall(role())
		}
	}
}

// usage returns the model usage so far.
func (tr *tracker) usage() usage {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	u := tr.used
	u.models = slices.Clone(u.models)
	return u
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// answer is the part of an execution that a run keeps in memory.
type answer struct {
	seq      uint64
	text     string
	label    events.Label
	score    float64
	feedback string
	version  uint64
}

// Limits of the texts kept in memory, in bytes.
const (
	maxAnswer   = 2 << 10
	maxFeedback = 1 << 10
	maxQuestion = 200
)

// tracker follows the streams and records the state of the run's samples. It works until close is called.
type tracker struct {
	conn    *bus.Conn
	book    playbook.Book
	runName string
	ctx     context.Context
	stop    context.CancelFunc
	done    sync.WaitGroup

	waiting func(string)
	ended   error // if set, submit returns it: the run has ended

	mu          sync.Mutex
	changed     chan struct{} // closed and replaced on every change
	err         error         // of following a stream
	answers     map[events.ID]*answer
	reflected   map[events.ID]events.Handle // by execution id
	submitted   map[events.ID]bool          // tasks in the stream TASKS, now or when this process began
	dead        map[events.ID]string        // reasons of dead letters, by id of the task, execution or edit
	lastDeadSeq uint64                      // stream sequence of the last dead letter
	bulletUse   map[playbook.BulletID]*bulletUsage
	toResubmit  map[events.ID]events.Event // events dead-lettered after worker crashes, to be submitted again
	copies      map[events.ID]int          // submitted again, by event id
	generator   report.Usage
	reflector   report.Usage
	model       string // of the latest execution
}

// openTracker reads the stored events and starts to follow new ones.
func openTracker(ctx context.Context, conn *bus.Conn, b playbook.Book, o Options) (*tracker, error) {
	ctx, stop := context.WithCancel(ctx)
	l := &tracker{
		conn: conn, book: b, runName: o.Name, ctx: ctx, stop: stop, waiting: o.OnStall, changed: make(chan struct{}),
		answers: map[events.ID]*answer{}, reflected: map[events.ID]events.Handle{}, submitted: map[events.ID]bool{},
		dead: map[events.ID]string{}, bulletUse: map[playbook.BulletID]*bulletUsage{},
		toResubmit: map[events.ID]events.Event{}, copies: map[events.ID]int{},
	}
	// Pending tasks are read first. A task that is not pending was never submitted, or its outcome is stored by now.
	waiting, err := conn.PendingTasks(ctx, b)
	if err != nil {
		stop()
		return nil, err
	}
	for _, id := range waiting {
		l.submitted[id] = true
	}
	for _, s := range []struct {
		stream, subject string
		note            func(bus.Stored)
	}{
		{events.StreamDead, events.DeadSubject("", b), l.addDeadLetter},
		{events.StreamExecutions, events.KindExecution.Subject(b), l.addExecution},
		{events.StreamReflections, events.KindReflection.Subject(b), l.addReflection},
	} {
		last := uint64(0)
		err := conn.ReadStored(ctx, s.stream, s.subject, func(st bus.Stored) error {
			last = st.Seq
			s.note(st)
			return nil
		})
		if err != nil {
			l.close()
			return nil, err
		}
		l.done.Go(func() {
			err := conn.ReadFrom(ctx, s.stream, s.subject, last+1, func(st bus.Stored) error {
				return l.note(st, s.note)
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

func (l *tracker) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = errors.Join(l.err, err)
	l.wake()
}

// wake wakes the waiting goroutines. The caller holds the lock.
func (l *tracker) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// note passes an event to its handler. An event that is invalid is dead-lettered by its worker. A temporary read
// failure is an error, because the event would never be read again.
func (l *tracker) note(s bus.Stored, to func(bus.Stored)) error {
	if bus.Unreachable(s.Err) {
		return fmt.Errorf("read event %d: %w", s.Seq, s.Err)
	}
	to(s)
	return nil
}

func (l *tracker) addExecution(s bus.Stored) {
	e, ok := s.Event.(*events.Execution)
	if !ok || e.Origin.Run != l.runName {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generator = addUsage(l.generator, e.Usage.Calls, e.Usage.InputTokens, e.Usage.OutputTokens, e.Usage.Cost)
	if l.answers[e.ID] != nil {
		return // the first one counts
	}
	a := &answer{
		seq: s.Seq, text: events.TruncateBytes(e.Answer, maxAnswer), label: e.Outcome.Label, score: e.Outcome.Score,
		feedback: events.TruncateBytes(e.Outcome.Feedback, maxFeedback), version: e.Version,
	}
	if e.Purpose == events.Learn && e.Origin.Round == 0 {
		l.countBullets(e)
	}
	l.answers[e.ID] = a
	l.model = e.Model
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
	l.reflector = addUsage(l.reflector, ref.Usage.Calls, ref.Usage.InputTokens, ref.Usage.OutputTokens, ref.Usage.Cost)
	l.reflected[ref.Execution] = events.NewHandle(s.Seq, ref.ID)
	l.wake()
}

func (l *tracker) addDeadLetter(s bus.Stored) {
	letter, ok := s.Event.(*events.DeadLetter)
	var id events.ID
	var e events.Event
	if ok {
		id = bus.EventID(letter.Header)
		if letter.Code == events.DeadAttempts {
			var err error
			if e, err = l.conn.Decode(l.ctx, letter.Subject, letter.Header, letter.Data); bus.IsUnavailable(err) { // an unreadable event counts as dead
				l.fail(fmt.Errorf("read dead-lettered event: %w", err))
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastDeadSeq = s.Seq
	switch {
	case !ok: // not written by a worker
	case e != nil && l.copies[id] < maxCopies:
		l.toResubmit[id] = e
	default:
		l.dead[id] = letter.Reason
	}
	l.wake()
}

// forgetDead removes the dead letter of an event.
func (l *tracker) forgetDead(id events.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.dead, id)
}

// waitDeadLetters waits until the tracker has read all dead letters that a role has written so far.
func (l *tracker) waitDeadLetters(ctx context.Context, role string) error {
	s, err := l.conn.JetStream().Stream(ctx, events.StreamDead)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamDead, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, events.DeadSubject(role, l.book))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", events.StreamDead, err)
	}
	for {
		l.mu.Lock()
		moved, at, err := l.changed, l.lastDeadSeq, l.err
		l.mu.Unlock()
		if err != nil || at >= m.Sequence {
			return err
		}
		if err := l.wait(ctx, moved, func() string { return role }); err != nil {
			return err
		}
	}
}

// deadReason returns the reason why an event was dead-lettered, "" if it was not.
func (l *tracker) deadReason(id events.ID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead[id]
}

func addUsage(u report.Usage, calls, in, out int, dollars float64) report.Usage {
	return report.Usage{Calls: u.Calls + calls, InputTokens: u.InputTokens + in, OutputTokens: u.OutputTokens + out, Dollars: u.Dollars + dollars}
}

// maxCopies limits how often an event is submitted again after its workers crashed. Beyond that, the event itself is
// the likely cause of the crashes.
const maxCopies = 3

// resubmit publishes events again whose workers crashed, unless their result is stored by now.
func (l *tracker) resubmit(ctx context.Context) error {
	l.mu.Lock()
	var list []events.Event
	for id, e := range l.toResubmit {
		switch e := e.(type) {
		case *events.Task:
			if l.answers[events.ExecutionID(e.Book, e.ID, e.Origin.Round)] != nil {
				continue
			}
		case *events.Execution:
			if l.reflected[e.ID] != "" {
				continue
			}
		}
		l.copies[id]++
		list = append(list, e)
	}
	clear(l.toResubmit)
	l.mu.Unlock()
	for _, e := range list {
		// The time makes this copy differ from copies made by earlier processes.
		m := bus.PublishOptions{Repeat: true, Copy: int(time.Now().UnixNano())}
		if _, err := l.conn.Publish(ctx, e, m); err != nil {
			return fmt.Errorf("resubmit %s %s: %w", e.Kind(), e.EventID(), err)
		}
	}
	return nil
}

// sampleResult is the state of one sample.
type sampleResult struct {
	answer        *answer       // of the first round, nil if there is none yet
	lastExecution events.ID     // execution of the last round
	rounds        int           // answered so far
	reflection    events.Handle // handle of the reflection
	lostReason    string        // reason why there is no answer or no reflection
}

// result returns the state of a task's sample. The second result reports that the sample is complete. Tasks for
// evaluation and tasks whose reflections are not held are complete with their answer.
func (l *tracker) result(t *events.Task) (f sampleResult, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for round := range events.MaxPreviousRounds + 1 {
		id := events.ExecutionID(l.book, t.ID, round)
		a := l.answers[id]
		if a == nil {
			if len(l.dead) > 0 {
				f.lostReason = l.unanswered(t.ID, round)
			}
			return f, f.lostReason != ""
		}
		if round == 0 {
			f.answer = a
		}
		f.rounds, f.lastExecution = round+1, id
		if !t.Origin.Held {
			return f, true
		}
		if f.reflection = l.reflected[id]; f.reflection != "" {
			return f, true
		}
		if why := l.dead[id]; why != "" {
			f.lostReason = "not reflected on: " + why
			return f, true
		}
	}
	return f, false
}

// unanswered returns the reason why a round of a task will never have a readable answer, "" if one may come. The
// caller holds the lock.
func (l *tracker) unanswered(task string, round int) string {
	asked := events.Task{ID: task, Origin: events.Origin{Round: round}}
	asked.Book = l.book
	if why := l.dead[asked.EventID()]; why != "" {
		return "not answered: " + why
	}
	if why := l.dead[events.ExecutionID(l.book, task, round)]; why != "" {
		return "its answer cannot be read: " + why
	}
	return ""
}

// maxPending is the number of tasks of a run that wait for a generator at the same time. Live traffic shares the
// queue.
const maxPending = 256

// run submits the tasks that were not submitted before and waits until each is complete. It calls progress with the
// number of complete tasks.
func (l *tracker) run(ctx context.Context, tasks []events.Task, progress func(done int)) ([]sampleResult, error) {
	fates := make([]sampleResult, len(tasks))
	open := make([]int, 0, min(len(tasks), maxPending))
	next, ended := 0, 0
	for {
		l.mu.Lock()
		moved, err := l.changed, l.err
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		still := open[:0]
		for _, i := range open {
			if f, end := l.result(&tasks[i]); end {
				fates[i] = f
				ended++
			} else {
				still = append(still, i)
			}
		}
		open = still
		var hand []*events.Task
		for ; next < len(tasks) && len(open) < maxPending; next++ {
			t := &tasks[next]
			f, end := l.result(t)
			if end {
				fates[next] = f
				ended++
				continue
			}
			open = append(open, next)
			if !l.isSubmitted(t) && f.answer == nil {
				hand = append(hand, t)
			}
		}
		if err := errors.Join(l.submit(ctx, hand), l.resubmit(ctx)); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(ended)
		}
		if ended == len(tasks) {
			return fates, nil
		}
		if len(hand) > 0 {
			continue // some may be complete by now
		}
		if err := l.wait(ctx, moved, func() string { return l.waitingRole(tasks, open) }); err != nil {
			return nil, err
		}
	}
}

// waitingRole returns the role that does the next step of the first open task.
func (l *tracker) waitingRole(tasks []events.Task, open []int) string {
	if len(open) == 0 {
		return events.RoleGenerator
	}
	if f, _ := l.result(&tasks[open[0]]); f.answer == nil {
		return events.RoleGenerator
	}
	return events.RoleReflector
}

// stallNotice is the time without any change after which Options.OnStall is called. coalesce is the time to collect
// further changes before they are evaluated.
const (
	stallNotice = 5 * time.Second
	coalesce    = time.Millisecond
)

// wait waits until the channel is closed by the next change.
func (l *tracker) wait(ctx context.Context, moved <-chan struct{}, who func() string) error {
	said := false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-moved:
			time.Sleep(coalesce)
			return nil
		case <-time.After(stallNotice):
			if !said && l.waiting != nil {
				said = true
				l.waiting(who())
			}
		}
	}
}

func (l *tracker) isSubmitted(t *events.Task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.submitted[t.EventID()]
}

// publishConcurrency is the number of concurrent publishes. The server syncs them to disk together.
const publishConcurrency = 16

// submit publishes tasks.
func (l *tracker) submit(ctx context.Context, tasks []*events.Task) error {
	if l.ended != nil && len(tasks) > 0 {
		return l.ended
	}
	return forEach(len(tasks), publishConcurrency, func(i int) error {
		t := tasks[i]
		t.Created = time.Now().UTC()
		if _, err := l.conn.Publish(ctx, t, bus.PublishOptions{}); err != nil {
			return fmt.Errorf("submit task %q: %w", t.ID, err)
		}
		l.mu.Lock()
		l.submitted[t.EventID()] = true
		l.mu.Unlock()
		return nil
	})
}

// forEach calls do for 0 to n-1 with limited concurrency, until a call fails.
func forEach(n, concurrency int, do func(i int) error) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		next int
		errs []error
	)
	for range min(n, concurrency) {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || len(errs) > 0
				mu.Unlock()
				if stop {
					return
				}
				if err := do(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (l *tracker) usage() (generator, reflector report.Usage, model string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generator, l.reflector, l.model
}

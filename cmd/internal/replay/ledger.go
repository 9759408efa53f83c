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

// answer is what a run keeps of an execution.
type answer struct {
	seq      uint64
	text     string
	label    events.Label
	score    float64
	feedback string
	version  uint64
}

// Bounds of what is kept of a text, in bytes.
const (
	keptAnswer   = 2 << 10
	keptFeedback = 1 << 10
	keptQuestion = 200
)

// ledger is what has become of the run's samples, as the streams say. It follows them for as long as the run is at work.
type ledger struct {
	conn *bus.Conn
	book playbook.Book
	run  string
	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	waiting func(string)
	ended   error // of a run that hands in no more

	mu        sync.Mutex
	moved     chan struct{} // closed and replaced when something came
	err       error         // of following
	answers   map[events.ID]*answer
	reflected map[events.ID]events.Handle // by execution
	handed    map[events.ID]bool          // tasks that wait for a generator, or did when the run went on
	dead      map[events.ID]string        // tasks, executions and edits that were given up
	letters   uint64                      // sequence of the last dead letter
	used      map[playbook.BulletID]*usage
	again     map[events.ID]events.Event // what workers died with, to be handed in once more
	copies    map[events.ID]int          // that were made of it
	generator report.Usage
	reflector report.Usage
	model     string // that answers
}

// openLedger reads what is stored and begins to follow what comes.
func openLedger(ctx context.Context, conn *bus.Conn, b playbook.Book, o Options) (*ledger, error) {
	ctx, stop := context.WithCancel(ctx)
	l := &ledger{
		conn: conn, book: b, run: o.Name, ctx: ctx, stop: stop, waiting: o.Waiting, moved: make(chan struct{}),
		answers: map[events.ID]*answer{}, reflected: map[events.ID]events.Handle{}, handed: map[events.ID]bool{},
		dead: map[events.ID]string{}, used: map[playbook.BulletID]*usage{},
		again: map[events.ID]events.Event{}, copies: map[events.ID]int{},
	}
	// What waits is looked at first: what is not there was never handed in, or has an outcome that is stored by now.
	waiting, err := conn.Waiting(ctx, b)
	if err != nil {
		stop()
		return nil, err
	}
	for _, id := range waiting {
		l.handed[id] = true
	}
	for _, s := range []struct {
		stream, subject string
		note            func(bus.Stored)
	}{
		{events.StreamDead, events.DeadSubject("", b), l.letter},
		{events.StreamExecutions, events.KindExecution.Subject(b), l.execution},
		{events.StreamReflections, events.KindReflection.Subject(b), l.reflection},
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

// close stops following. It may be called twice.
func (l *ledger) close() {
	l.stop()
	l.done.Wait()
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = errors.Join(l.err, err)
	l.wake()
}

// wake tells those who wait. The lock is held.
func (l *ledger) wake() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// note takes an event in. One that nobody can read is a dead letter of whoever had to; one that could not be fetched just
// now would be missed for good, so that is an error.
func (l *ledger) note(s bus.Stored, to func(bus.Stored)) error {
	if bus.Unreachable(s.Err) {
		return fmt.Errorf("read what is stored at %d: %w", s.Seq, s.Err)
	}
	to(s)
	return nil
}

func (l *ledger) execution(s bus.Stored) {
	e, ok := s.Event.(*events.Execution)
	if !ok || e.Origin.Run != l.run {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generator = spend(l.generator, e.Usage.Calls, e.Usage.InputTokens, e.Usage.OutputTokens, e.Usage.Cost)
	if l.answers[e.ID] != nil {
		return // the first one counts
	}
	a := &answer{
		seq: s.Seq, text: events.Beginning(e.Answer, keptAnswer), label: e.Outcome.Label, score: e.Outcome.Score,
		feedback: events.Beginning(e.Outcome.Feedback, keptFeedback), version: e.Version,
	}
	if e.Purpose == events.Learn && e.Origin.Round == 0 {
		l.use(e)
	}
	l.answers[e.ID] = a
	l.model = e.Model
	l.wake()
}

func (l *ledger) reflection(s bus.Stored) {
	ref, ok := s.Event.(*events.Reflection)
	if !ok || ref.Feedback != "" || ref.Origin.Run != l.run {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reflected[ref.Execution] != "" {
		return
	}
	l.reflector = spend(l.reflector, ref.Usage.Calls, ref.Usage.InputTokens, ref.Usage.OutputTokens, ref.Usage.Cost)
	l.reflected[ref.Execution] = events.NewHandle(s.Seq, ref.ID)
	l.wake()
}

func (l *ledger) letter(s bus.Stored) {
	letter, ok := s.Event.(*events.DeadLetter)
	var id events.ID
	var e events.Event
	if ok {
		id = bus.EventID(letter.Header)
		if letter.Code == events.DeadAttempts {
			var err error
			if e, err = l.conn.Undead(l.ctx, letter); bus.Away(err) { // what nobody can read is given up
				l.fail(fmt.Errorf("read what workers died with: %w", err))
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letters = s.Seq
	switch {
	case !ok: // written by no worker
	case e != nil && l.copies[id] < mostCopies:
		l.again[id] = e
	default:
		l.dead[id] = letter.Reason
	}
	l.wake()
}

// forgive forgets that something was given up.
func (l *ledger) forgive(id events.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.dead, id)
}

// caughtUp waits until the dead letters are read that a role has written so far.
func (l *ledger) caughtUp(ctx context.Context, role string) error {
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
		moved, at, err := l.moved, l.letters, l.err
		l.mu.Unlock()
		if err != nil || at >= m.Sequence {
			return err
		}
		if err := l.wait(ctx, moved, func() string { return role }); err != nil {
			return err
		}
	}
}

// givenUp is why something was given up, "" if it was not.
func (l *ledger) givenUp(id events.ID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead[id]
}

func spend(u report.Usage, calls, in, out int, dollars float64) report.Usage {
	return report.Usage{Calls: u.Calls + calls, InputTokens: u.InputTokens + in, OutputTokens: u.OutputTokens + out, Dollars: u.Dollars + dollars}
}

// mostCopies is how often something is handed in once more that workers died with in hand. Beyond that it may be what
// they die of.
const mostCopies = 3

// revive hands in what workers died with, unless it was done after all.
func (l *ledger) revive(ctx context.Context) error {
	l.mu.Lock()
	var list []events.Event
	for id, e := range l.again {
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
	clear(l.again)
	l.mu.Unlock()
	for _, e := range list {
		// The time makes it another copy than one that an earlier process made.
		m := bus.Marks{Repeat: true, Copy: int(time.Now().UnixNano())}
		if _, err := l.conn.Publish(ctx, e, m); err != nil {
			return fmt.Errorf("hand in %s %s once more: %w", e.Kind(), e.EventID(), err)
		}
	}
	return nil
}

// fate is what has become of one sample.
type fate struct {
	first  *answer       // of the first round, nil where there is none
	last   events.ID     // execution of the last round
	rounds int           // that were answered
	held   events.Handle // its reflection
	lost   string        // why it came to nothing
}

// fate looks a task up; ended says that nothing more will come of it. What is for evaluation ends with its answer, and so
// does what is learned from by itself.
func (l *ledger) fate(t *events.Task) (f fate, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for round := range events.MaxTries + 1 {
		id := events.ExecutionID(l.book, t.ID, round)
		a := l.answers[id]
		if a == nil {
			if len(l.dead) > 0 {
				f.lost = l.unanswered(t.ID, round)
			}
			return f, f.lost != ""
		}
		if round == 0 {
			f.first = a
		}
		f.rounds, f.last = round+1, id
		if !t.Origin.Held {
			return f, true
		}
		if f.held = l.reflected[id]; f.held != "" {
			return f, true
		}
		if why := l.dead[id]; why != "" {
			f.lost = "not reflected on: " + why
			return f, true
		}
	}
	return f, false
}

// unanswered is why a round at a task has no answer that anybody can read, "" if one may come. The lock is held.
func (l *ledger) unanswered(task string, round int) string {
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

// outstanding is how many tasks of a run wait for a generator at the same time: live traffic shares the queue.
const outstanding = 256

// ask hands in tasks that were not handed in before and waits until each has ended. Progress is told how many have.
func (l *ledger) ask(ctx context.Context, tasks []events.Task, progress func(done int)) ([]fate, error) {
	fates := make([]fate, len(tasks))
	open := make([]int, 0, min(len(tasks), outstanding))
	next, ended := 0, 0
	for {
		l.mu.Lock()
		moved, err := l.moved, l.err
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		still := open[:0]
		for _, i := range open {
			if f, end := l.fate(&tasks[i]); end {
				fates[i] = f
				ended++
			} else {
				still = append(still, i)
			}
		}
		open = still
		var hand []*events.Task
		for ; next < len(tasks) && len(open) < outstanding; next++ {
			t := &tasks[next]
			f, end := l.fate(t)
			if end {
				fates[next] = f
				ended++
				continue
			}
			open = append(open, next)
			if !l.isHanded(t) && f.first == nil {
				hand = append(hand, t)
			}
		}
		if err := errors.Join(l.hand(ctx, hand), l.revive(ctx)); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(ended)
		}
		if ended == len(tasks) {
			return fates, nil
		}
		if len(hand) > 0 {
			continue // some may have ended meanwhile
		}
		if err := l.wait(ctx, moved, func() string { return l.waitsFor(tasks, open) }); err != nil {
			return nil, err
		}
	}
}

// waitsFor is the role that has to do the next step of the first task that has not ended.
func (l *ledger) waitsFor(tasks []events.Task, open []int) string {
	if len(open) == 0 {
		return events.RoleGenerator
	}
	if f, _ := l.fate(&tasks[open[0]]); f.first == nil {
		return events.RoleGenerator
	}
	return events.RoleReflector
}

// How long nothing may move before that is said, and how long news are gathered before they are looked at.
const (
	patience = 5 * time.Second
	gather   = time.Millisecond
)

// wait waits for news.
func (l *ledger) wait(ctx context.Context, moved <-chan struct{}, who func() string) error {
	said := false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-moved:
			time.Sleep(gather)
			return nil
		case <-time.After(patience):
			if !said && l.waiting != nil {
				said = true
				l.waiting(who())
			}
		}
	}
}

func (l *ledger) isHanded(t *events.Task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handed[t.EventID()]
}

// atOnce is how many tasks are published at the same time: the server syncs them together.
const atOnce = 16

// hand publishes tasks.
func (l *ledger) hand(ctx context.Context, tasks []*events.Task) error {
	if l.ended != nil && len(tasks) > 0 {
		return l.ended
	}
	return each(len(tasks), atOnce, func(i int) error {
		t := tasks[i]
		t.Created = time.Now().UTC()
		if _, err := l.conn.Publish(ctx, t, bus.Marks{}); err != nil {
			return fmt.Errorf("hand in task %q: %w", t.ID, err)
		}
		l.mu.Lock()
		l.handed[t.EventID()] = true
		l.mu.Unlock()
		return nil
	})
}

// each calls do for 0 to n-1, so many at the same time, until one fails.
func each(n, atOnce int, do func(i int) error) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		next int
		errs []error
	)
	for range min(n, atOnce) {
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

func (l *ledger) usage() (generator, reflector report.Usage, model string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generator, l.reflector, l.model
}

package train

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/program/cli"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/erasure"
	"debrief/events/window"
	"debrief/reflector"

	book "debrief/playbook"
)

// runID is the binary form of an execution's id. It is compact because there may be millions of runs.
type runID [16]byte

// runIDOf returns the binary form of an id. For an id that is not of an execution, the result is the id of no run.
func runIDOf(id events.ID) (r runID) {
	if raw, err := base64.RawURLEncoding.DecodeString(string(id)); err == nil && len(raw) == len(r) {
		copy(r[:], raw)
	}
	return r
}

// runState is a set of flags.
type runState uint8

const (
	runStored    runState = 1 << iota // stored in this playbook before this command
	runInFiles                        // in one of the files
	runReflected                      // has a reflection
	runDead                           // the execution, or a reflection on it, is a dead letter
)

// runStates holds the state of each execution that was stored or submitted.
type runStates map[runID]runState

// mark sets a flag of a run in the files. It reports whether that changed the state: it changes nothing if the flag is set already, or if no
// file has the run.
func (r runStates) mark(id events.ID, flag runState) bool {
	key := runIDOf(id)
	state := r[key]
	if state&runInFiles == 0 || state&flag != 0 {
		return false
	}
	r[key] = state | flag
	return true
}

// count returns the number of runs in the files that have all the flags.
func (r runStates) count(flags runState) (n int) {
	for _, state := range r {
		if state&runInFiles != 0 && state&flags == flags {
			n++
		}
	}
	return n
}

// postponedRuns are the failed runs in the files. They are published last, so that the successful runs of their tasks are known before the
// Reflector reflects on them.
type postponedRuns struct {
	runs  []postponedRun
	bytes int // of their texts
}

type postponedRun struct {
	file string
	run  *events.Execution
}

// maxPostponed is the maximum size of the texts of postponed runs, in bytes. Further failed runs are published in the order of the files.
const maxPostponed = 64 << 20

// add postpones a failed run, up to the limit of memory. It reports whether it did.
func (p *postponedRuns) add(file string, e *events.Execution) bool {
	if e.Outcome.Label != events.Failure || p.bytes > maxPostponed {
		return false
	}
	p.runs = append(p.runs, postponedRun{file, e})
	p.bytes += len(e.Question) + len(e.Answer) + len(e.Reasoning)
	for i := range e.Steps {
		s := &e.Steps[i]
		p.bytes += len(s.Text)
		for j := range s.Calls {
			p.bytes += len(s.Calls[j].Arguments) + len(s.Calls[j].Output)
		}
	}
	return true
}

// publisher publishes runs, several at the same time.
type publisher struct {
	session *cli.Session
	windows *window.Store // for the runs that the Reflector compares; nil without a model that reflects
	erased  *erasure.Filter
	states  runStates // of the command
	calls   int       // tool calls of the new runs

	estimate func(e *events.Execution) // is called with each new run; may be nil

	sending *errgroup.Group
	running context.Context // of sending: ends with the first error of the server

	mu      sync.Mutex
	lost    []runID          // not stored because of an error of the server
	invalid map[runID]string // not stored because the run is invalid; with the reason, for example too many steps
}

// publishConcurrency is the number of runs that are stored at the same time. The server syncs several writes at once.
const publishConcurrency = 32

// newPublisher returns a publisher that updates states, and res.Expected if this process reflects.
func (l *Learn) newPublisher(ctx context.Context, s *cli.Session, states runStates, res *learnResult) *publisher {
	sending, running := errgroup.WithContext(ctx)
	sending.SetLimit(publishConcurrency)
	p := &publisher{session: s, states: states, sending: sending, running: running, invalid: map[runID]string{}, erased: erasure.NewFilter(s.JetStream())}
	if l.reflectorModel != nil || s.Server == nil { // another process may have a model
		p.windows = window.New(s.NATS(), s.JetStream())
	}
	if l.reflector != nil {
		p.estimate = func(e *events.Execution) { res.Expected.add(l.reflector.Estimate(e)) }
	}
	return p
}

// publish stores a new run in the background. It returns a *stopError after an error of the server. Only one goroutine may call it.
func (p *publisher) publish(ctx context.Context, e *events.Execution) error {
	key := runIDOf(e.ID)
	if state := p.states[key]; state != 0 { // stored before this command, or read before in one of the files
		p.states[key] = state | runInFiles
		return nil
	}
	if p.running.Err() != nil {
		return &stopError{context.Cause(p.running)}
	}
	p.states[key] = runInFiles
	for _, step := range e.Steps {
		p.calls += len(step.Calls)
	}
	if p.estimate != nil {
		p.estimate(e)
	}
	p.sending.Go(func() error {
		err := p.store(ctx, e)
		if err == nil {
			return nil
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		var permanent interface{ Discard() bool }
		if errors.As(err, &permanent) && permanent.Discard() {
			p.invalid[key] = fmt.Sprintf("run %s: %v", e.RunID, err)
			return nil
		}
		p.lost = append(p.lost, key)
		return err
	})
	return nil
}

// store stores a run, and then the calls of a successful one for the comparison with failed runs of its task.
func (p *publisher) store(ctx context.Context, e *events.Execution) error {
	if err := p.erased.Check(ctx, e); err != nil {
		return err
	}
	// The stream may have dropped an earlier copy of the run. Repeat makes the Curator check whether the log covers it already.
	stored, err := p.session.Publish(ctx, e, bus.PublishOptions{Repeat: true})
	if err != nil || p.windows == nil {
		return err
	}
	return reflector.Remember(ctx, p.windows, e, stored.Handle)
}

// wait waits for the runs in the background. It removes the states of the runs that are not stored. It returns the first error of the server.
func (p *publisher) wait() error {
	err := p.sending.Wait()
	for _, key := range p.lost {
		delete(p.states, key)
	}
	for key := range p.invalid {
		delete(p.states, key)
	}
	return err
}

// countResults counts the results of all runs in the files, also of runs that an earlier command submitted: reflected
// on, nothing to learn, or dead letter.
func (l *Learn) countResults(ctx context.Context, s *cli.Session, b book.Book, states runStates, res *learnResult) error {
	err := s.Events.Scan(ctx, events.StreamReflections, events.KindReflection.Subject(b), 1, func(st bus.Stored) error {
		if r, ok := st.Event.(*events.Reflection); ok {
			states.mark(r.Execution, runReflected)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.Events.Scan(ctx, events.StreamDead, events.DeadSubject("", b), 1, func(st bus.Stored) error {
		if letter, ok := st.Event.(*events.DeadLetter); ok && states.mark(runOf(letter), runDead) {
			res.DeadReasons[letter.Reason]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	res.Dead = states.count(runDead)
	res.Reflected = states.count(runReflected) - states.count(runReflected|runDead)
	res.Nothing = res.Executions - res.Dead - res.Reflected
	return nil
}

// runOf returns the id of the run of a dead-lettered execution or reflection, "" for another letter.
func runOf(letter *events.DeadLetter) events.ID {
	if letter.Stream == events.StreamExecutions {
		return bus.EventID(letter.Header) // the letter of a large execution has no payload
	}
	e, err := events.Decode(letter.Subject, letter.Header, letter.Data)
	if r, ok := e.(*events.Reflection); ok && err == nil {
		return r.Execution
	}
	return ""
}

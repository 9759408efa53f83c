package reflector

import (
	"context"
	"fmt"
	"strings"

	"debrief/events"
	"debrief/events/window"
	"debrief/reflector/rules"
)

// Two runs of one task, one that succeeded and one that failed, differ less than other runs do. So the prompt about a run also quotes the
// calls of the last run of its task with the opposite outcome. Every run with an outcome is stored for later prompts, also a run that taught
// nothing.

// comparison compares a run with an earlier run of its task, and stores it for later ones.
type comparison struct {
	task     events.ID // see taskKey
	label    events.Label
	opposite events.Label
	run      *window.Run
	// relabelled is set by find if the run itself is stored under the opposite outcome, from before feedback corrected it.
	relabelled bool
}

// newComparison returns nil for a run that is not comparable: its outcome is neither success nor failure, it has no steps, or its
// question depends on its conversation. h is the handle of the run.
func newComparison(e *events.Execution, h events.Handle) *comparison {
	if e.Outcome.Label != events.Success && e.Outcome.Label != events.Failure {
		return nil
	}
	task := taskKey(e)
	if task == "" || len(e.Steps) == 0 {
		return nil
	}
	run := &window.Run{Execution: e.ID, Handle: h, Calls: callsOf(e), User: e.User, Session: e.Session}
	p := &comparison{task: task, label: events.Success, opposite: events.Failure, run: run}
	if e.Outcome.Label == events.Failure {
		p.label, p.opposite = p.opposite, p.label
	}
	return p
}

// maxCall is the maximum length of a call of another run, in bytes.
const maxCall = 600

// callsOf returns the first calls of a run with their arguments, as the trace of an attempt has them. Equal calls in a row count once.
func callsOf(e *events.Execution) (calls []string) {
	for i := range e.Steps {
		for j := range e.Steps[i].Calls {
			c := &e.Steps[i].Calls[j]
			call := fmt.Sprintf("%s(%s)", excerpt(c.Tool, maxCall/4), strings.Join(strings.Fields(excerpt(c.Arguments, maxCall)), " "))
			if c.Outcome.Failed() {
				call += fmt.Sprintf(" [%s]", c.Outcome)
			}
			if n := len(calls); n == 0 || calls[n-1] != call {
				calls = append(calls, call)
			}
			if len(calls) == window.MaxRunCalls {
				return calls
			}
		}
	}
	return calls
}

// taskKey returns the key of the task in the book, "" if it is unknown; see [rules.TaskOf].
func taskKey(e *events.Execution) events.ID {
	task := rules.TaskOf(e)
	if task == "" {
		return ""
	}
	return events.Hash("same task", string(e.Book), task)
}

// otherRun is a run of the same task with the opposite outcome.
type otherRun struct {
	events.OtherRun // its handle is empty if it is unknown
	calls           []string
}

// quoted returns the outcome and the calls in at most budget tokens. If not all fit, calls in the middle are left out.
func (o *otherRun) quoted(budget int) string {
	lines := []string{fmt.Sprintf("outcome: %s\n", o.Label)}
	for _, call := range o.calls {
		lines = append(lines, call+"\n")
	}
	c := newChoice(lines, budget)
	for i := range lines {
		c.take(i)
		c.take(len(lines) - 1 - i)
	}
	return c.join("calls")
}

// find returns the last run of the task, by the owner of e, that had the opposite outcome, or nil. If this is the run itself, stored before
// its outcome was corrected, find returns nil and sets relabelled. A nil comparison finds nothing.
func (p *comparison) find(ctx context.Context, windows *window.Store, e *events.Execution) (*otherRun, error) {
	if p == nil {
		return nil, nil
	}
	last, err := windows.LastRun(ctx, e.Book, e.Owner, p.task, p.opposite)
	if err != nil || last == nil {
		return nil, err
	}
	p.relabelled = last.Execution == p.run.Execution
	if p.relabelled {
		return nil, nil
	}
	return &otherRun{
		OtherRun: events.OtherRun{Execution: last.Handle, Label: p.opposite, User: last.User, Session: last.Session},
		calls:    last.Calls,
	}, nil
}

// Remember keeps a successful run with the handle h for the comparison with failed runs of its task. The Reflector does the same after its
// reflection. 'debrief learn' does it before, so that the failures in its files are compared with the successes whatever their order is.
func Remember(ctx context.Context, windows *window.Store, e *events.Execution, h events.Handle) error {
	if e.Outcome.Label != events.Success || e.Purpose == events.Evaluate {
		return nil
	}
	return newComparison(e, h).store(ctx, windows, e)
}

// store saves the run for later comparisons, if it made calls. Each run is stored after its reflection, so of two concurrent runs at most one
// finds the other, and no pair counts twice. Saving a run twice changes nothing. After find has set relabelled, store removes the run from
// under its old outcome.
func (p *comparison) store(ctx context.Context, windows *window.Store, e *events.Execution) error {
	if p == nil || len(p.run.Calls) == 0 {
		return nil
	}
	err := windows.PutRun(ctx, e.Book, e.Owner, p.task, p.label, p.run)
	if err == nil && p.relabelled {
		err = windows.PutRun(ctx, e.Book, e.Owner, p.task, p.opposite, nil)
	}
	return err
}

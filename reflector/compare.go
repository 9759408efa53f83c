package reflector

import (
	"context"
	"fmt"
	"math"
	"strings"

	"debrief/events"
	"debrief/events/window"
	"debrief/reflector/rules"
)

// Two runs of one task, one better than the other, differ less than other runs do. So the prompt about a run also quotes a run of its task
// with another outcome: the calls, or the answer of a run without calls. Every run with an outcome is stored for later prompts, also a run
// that taught nothing.

// comparison compares a run with earlier runs of its task, and stores it for later ones.
type comparison struct {
	task  events.ID // see taskKey
	label events.Label
	run   *window.Run
	// oldLabel is set by find if the run itself is stored under this label, from before feedback corrected its outcome.
	oldLabel events.Label
}

// Limits of the answer of another run, in bytes. Only a run without calls is stored with its answer, which explains the outcome.
const (
	maxTryReasoning = 2 << 10
	maxTryText      = 1000 // of the answer, and of the feedback
)

// newComparison returns nil for a run that is not comparable: its outcome is unknown, it has neither steps nor an answer, or its question
// depends on its conversation. h is the handle of the run.
func newComparison(e *events.Execution, h events.Handle) *comparison {
	task := taskKey(e)
	isEmpty := len(e.Steps) == 0 && e.Answer == ""
	if !e.Outcome.Known() || task == "" || isEmpty {
		return nil
	}
	outcome := e.Outcome.Complete()
	run := &window.Run{Execution: e.ID, Handle: h, Calls: callsOf(e), User: e.User, Session: e.Session}
	run.Try.Outcome = events.Outcome{Label: outcome.Label, Score: outcome.Score, Feedback: excerpt(outcome.Feedback, maxTryText)}
	if len(run.Calls) == 0 {
		run.Try.Reasoning, run.Try.Answer = excerpt(e.Reasoning, maxTryReasoning), excerpt(e.Answer, maxTryText)
	}
	return &comparison{task: task, label: outcome.Label, run: run}
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

// taskKey returns the key of the task in the book, "" if it is unknown; see [rules.TaskOf]. An execution with a held reflection (Origin.Held)
// is compared only with those of its sample in earlier epochs, so that the result does not depend on the order of executions.
func taskKey(e *events.Execution) events.ID {
	task := rules.TaskOf(e)
	switch {
	case task == "", e.Origin.Held && e.Origin.Epoch == 0:
		return ""
	case e.Origin.Held:
		return events.Hash("same sample", string(e.Book), e.Origin.Run, fmt.Sprint(e.Origin.Index), task)
	}
	return events.Hash("same task", string(e.Book), task)
}

// otherRun is a run of the same task with another outcome.
type otherRun struct {
	events.OtherRun // its handle is empty if it is unknown
	calls           []string
	try             events.Try
}

// quotedCalls returns the outcome and the calls in at most budget tokens, and "" without calls. If not all fit, calls in the middle are left
// out.
func (o *otherRun) quotedCalls(budget int) string {
	if len(o.calls) == 0 {
		return ""
	}
	lines := []string{outcomeOf(&o.try.Outcome)}
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

// outcomeOf returns an outcome as a line of a quotation.
func outcomeOf(o *events.Outcome) string {
	if o.Label == events.Partial {
		return fmt.Sprintf("outcome: %s (score %.2f of 1)\n", o.Label, o.Score)
	}
	return fmt.Sprintf("outcome: %s\n", o.Label)
}

// minDifference is the least difference between the scores of two partial outcomes that are compared.
const minDifference = 0.1

// find returns the run of the task, by the owner of e, that is compared with e. Of the last run with each label it takes the best if that is
// better than e, else the worst. It returns nil if none differs. If the run itself is stored under an old label, find sets oldLabel. A nil
// comparison finds nothing.
func (p *comparison) find(ctx context.Context, windows *window.Store, e *events.Execution) (*otherRun, error) {
	if p == nil {
		return nil, nil
	}
	score := p.run.Try.Outcome.Score
	var best, worst *window.Run
	for _, label := range []events.Label{events.Success, events.Partial, events.Failure} { // so that the best run is found first
		last, err := windows.LastRun(ctx, e.Book, e.Owner, p.task, label)
		if err != nil {
			return nil, err
		}
		switch {
		case last == nil:
			continue
		case last.Execution == p.run.Execution:
			if label != p.label {
				p.oldLabel = label
			}
			continue
		case label == p.label && math.Abs(last.Try.Outcome.Score-score) < minDifference:
			continue
		}
		if best == nil {
			best = last
		}
		worst = last
	}
	other := worst
	if best != nil && best.Try.Outcome.Score > score {
		other = best
	}
	isCompared := e.OtherTry != nil // with another answer to the same prompt; tested after the loop, which sets oldLabel
	if other == nil || isCompared {
		return nil, nil
	}
	return &otherRun{
		OtherRun: events.OtherRun{Execution: other.Handle, Label: other.Try.Outcome.Label, User: other.User, Session: other.Session},
		calls:    other.Calls, try: other.Try,
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

// store saves the run for later comparisons, if it has calls or an answer. Each run is stored after its reflection, so of two concurrent runs
// at most one finds the other, and no pair counts twice. Saving a run twice changes nothing. If find has set oldLabel, store removes the run
// from under that label.
func (p *comparison) store(ctx context.Context, windows *window.Store, e *events.Execution) error {
	if p == nil || len(p.run.Calls) == 0 && p.run.Try.Answer == "" {
		return nil
	}
	err := windows.PutRun(ctx, e.Book, e.Owner, p.task, p.label, p.run)
	if err == nil && p.oldLabel != "" {
		err = windows.PutRun(ctx, e.Book, e.Owner, p.task, p.oldLabel, nil)
	}
	return err
}

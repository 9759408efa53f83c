package reflector

import (
	"context"

	"debrief/events"
	"debrief/events/window"
	"debrief/reflector/rules"
)

// Two runs of one task, one that succeeded and one that failed, differ less than other runs do. So the calls of the last run with
// the opposite outcome are part of the material for the model.

// comparison compares a run with an earlier run of its task, and stores it for later ones.
type comparison struct {
	task         events.ID
	label, other events.Label // outcome of the run, and the opposite outcome
	run          *window.Run
	relabelled   bool // set by find: the same run is stored under the opposite outcome, which feedback has corrected since
}

// newComparison returns nil for a run that is not comparable: its outcome is neither success nor failure, it made no
// calls, or its question depends on its conversation.
func newComparison(e *events.Execution) *comparison {
	if e.Outcome.Label != events.Success && e.Outcome.Label != events.Failure {
		return nil
	}
	task := taskKey(e)
	if task == "" {
		return nil
	}
	run := &window.Run{Execution: e.ID, Calls: rules.CallNames(e, window.MaxRunCalls)}
	if len(run.Calls) == 0 {
		return nil
	}
	p := &comparison{task: task, label: events.Success, other: events.Failure, run: run}
	if e.Outcome.Label == events.Failure {
		p.label, p.other = p.other, p.label
	}
	return p
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
	label events.Label
	calls []string
}

// find returns the last run of the task, by the owner of e, that had the opposite outcome, or nil. If that run is the same one before its
// outcome was corrected, find returns nil and sets relabelled. A nil comparison finds nothing.
func (p *comparison) find(ctx context.Context, windows *window.Store, e *events.Execution) (*otherRun, error) {
	if p == nil {
		return nil, nil
	}
	last, err := windows.LastRun(ctx, e.Book, e.Owner, p.task, p.other)
	if err != nil || last == nil {
		return nil, err
	}
	p.relabelled = last.Execution == p.run.Execution
	if p.relabelled {
		return nil, nil
	}
	return &otherRun{p.other, last.Calls}, nil
}

// store saves the run for later comparisons. Each run is stored after its reflection, so two concurrent runs cannot both find the other,
// and no pair counts twice. The store is a cache, and saving a run twice changes nothing.
func (p *comparison) store(ctx context.Context, windows *window.Store, ref *events.Reflection) error {
	err := windows.PutRun(ctx, ref.Book, ref.Owner, p.task, p.label, p.run)
	if err == nil && p.relabelled {
		err = windows.PutRun(ctx, ref.Book, ref.Owner, p.task, p.other, nil)
	}
	return err
}

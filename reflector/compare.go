package reflector

import (
	"context"
	"strings"

	"debrief/events"
	"debrief/events/window"
	"debrief/reflector/rules"
)

// Two runs of one task, one that succeeded and one that failed, differ less than other runs do. So the first call in which
// they differ is a likely cause. The names of the calls are stored in order, and each run is compared with the last run of
// its task with the opposite outcome.

// comparison compares a run with an earlier run of its task, and stores it for later ones.
type comparison struct {
	task         events.ID
	label, other events.Label // outcome of the run, and the opposite outcome
	run          *window.Run
	relabelled   bool // the same run is stored under the opposite outcome
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

// taskKey returns a key that all attempts at a task share, whatever their ids: the name of the task at its source,
// else the question with its context. It returns "" for a later turn of a session, whose question depends on the
// session.
func taskKey(e *events.Execution) events.ID {
	switch {
	case e.Origin.Task != "":
		return events.Hash("same task", string(e.Book), e.Origin.Task)
	case e.Turn > 1 || strings.TrimSpace(e.Question) == "":
		return ""
	}
	return events.Hash("same question", string(e.Book), e.Question, e.Context)
}

// compare adds the first difference from the last run with the opposite outcome to the reflection. It adds nothing if
// that run is the same run before its outcome was corrected.
func (p *comparison) compare(ctx context.Context, windows *window.Store, ref *events.Reflection) error {
	last, err := windows.LastRun(ctx, ref.Book, p.task, p.other)
	if err != nil || last == nil {
		return err
	}
	if p.relabelled = last.Execution == p.run.Execution; p.relabelled {
		return nil
	}
	good, bad := p.run.Calls, last.Calls
	if p.label == events.Failure {
		good, bad = bad, good
	}
	ref.Findings = append(ref.Findings, rules.FirstDifference(good, bad, window.MaxRunCalls)...)
	return nil
}

// store saves the run for later comparisons. It is called after the reflection is stored. Then at most one of two
// concurrent runs sees the other, and no pair counts twice. The store is a cache, and saving a run twice changes
// nothing.
func (p *comparison) store(ctx context.Context, windows *window.Store, ref *events.Reflection) error {
	err := windows.PutRun(ctx, ref.Book, p.task, p.label, p.run)
	if err == nil && p.relabelled {
		err = windows.PutRun(ctx, ref.Book, p.task, p.other, nil)
	}
	return err
}

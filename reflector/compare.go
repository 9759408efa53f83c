package reflector

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/window"
)

// Two runs of one task, one that succeeded and one that failed, differ less than other runs do. So the first call in which
// they differ is a likely cause. The names of the calls are stored in order, and each run is compared with the last run of
// its task with the opposite outcome.

const (
	pairRule       = "pair"
	pairConfidence = 80
	pairTally      = ": of two runs at one task, the one that succeeded did so in {helpful} pairs, the one that failed in {harmful}."
)

// Words in a finding in place of a missing call.
const (
	noCallBefore = "the start"
	noCallAfter  = "nothing more"
)

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
	run := &window.Run{Execution: e.ID, Calls: callNames(e)}
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
	ref.Findings = append(ref.Findings, firstDifference(good, bad)...)
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

// firstDifference returns two findings on the first call in which the runs differ: one advises the call of the
// successful run, the other the opposite. Each pair of runs votes for one and against the other, so both bullets count
// all pairs, and at most one of them is shown.
func firstDifference(good, bad []string) []events.Finding {
	i := 0
	for i < len(good) && i < len(bad) && good[i] == bad[i] {
		i++
	}
	if i == len(good) && i == len(bad) || i == window.MaxRunCalls {
		return nil
	}
	after, did, didNot := callAt(good, i-1, noCallBefore), callAt(good, i, noCallAfter), callAt(bad, i, noCallAfter)
	after = toolName(after)
	if toolName(did) != toolName(didNot) { // otherwise only the arguments differ: keep them
		did, didNot = toolName(did), toolName(didNot)
	}
	return []events.Finding{pairFinding(after, did, didNot, events.Helpful), pairFinding(after, didNot, did, events.Harmful)}
}

func callAt(calls []string, i int, otherwise string) string {
	if i < 0 || i >= len(calls) {
		return otherwise
	}
	return calls[i]
}

// toolName returns a call without its arguments.
func toolName(call string) string {
	name, _, _ := strings.Cut(call, "(")
	return name
}

func pairFinding(after, do, not string, v events.Vote) events.Finding {
	text := fmt.Sprintf("After %s, call %s and not %s", quoteCall(after), quoteCall(do), quoteCall(not))
	switch {
	case do == noCallAfter:
		text = fmt.Sprintf("After %s, do not go on to %s", quoteCall(after), quoteCall(not))
	case not == noCallAfter:
		text = fmt.Sprintf("After %s, go on to %s", quoteCall(after), quoteCall(do))
	}
	return events.Finding{
		Key: key(pairRule, after, do, not), Section: strategies, Vote: v, Paired: true, Confidence: pairConfidence / 100.0,
		Text: text + pairTally,
	}
}

// quoteCall returns a call, or the words for a missing call, for use in a sentence. Stored text is not trusted, so it
// is cleaned.
func quoteCall(call string) string {
	if call == noCallBefore || call == noCallAfter {
		return call
	}
	return "`" + clean(call, 2*maxName) + "`"
}

// callNames returns the calls of a run: the tool with the names of its arguments, or the command in its command line.
// It omits argument values, which differ from run to run. Equal calls in a row count once.
func callNames(e *events.Execution) []string {
	var calls []string
	all := toolCalls(e)
	done := acts(all)
	for i := range done {
		a := &done[i]
		name := a.label().key()
		if len(a.args) > 0 && a.word == all[a.call].Tool {
			names := make([]string, 0, len(a.args))
			for n := range a.args {
				names = append(names, n)
			}
			slices.Sort(names)
			name = a.word + "(" + strings.Join(names[:min(len(names), 8)], ", ") + ")"
		}
		name = clean(name, 2*maxName)
		if n := len(calls); n == 0 || calls[n-1] != name {
			calls = append(calls, name)
		}
		if len(calls) == window.MaxRunCalls {
			break
		}
	}
	return calls
}

package reflector

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/window"
)

// Two runs at one task, one that succeeded and one that failed, differ in less than any two runs: the first place where
// they part is a lead. What is kept of a run is what it called, in order; a run is held against the last one with the
// other end.

const (
	pairRule       = "pair"
	pairConfidence = 80
	pairTally      = ": of two runs at one task, the one that succeeded did so in {helpful} pairs, the one that failed in {harmful}."
)

// What stands in a finding where there is no call.
const (
	atStart = "the start"
	noMore  = "nothing more"
)

// pair is a run that another one is held against, and is kept for later ones.
type pair struct {
	task         events.ID
	label, other events.Label // how it ended, and how it did not
	run          *window.Run
	moved        bool // it is known under the other end, too
}

// newPair is nil for a run that cannot be held against another: nobody knows how it went, it called nothing, or what it
// was about is known to its conversation alone.
func newPair(e *events.Execution) *pair {
	if e.Outcome.Label != events.Success && e.Outcome.Label != events.Failure {
		return nil
	}
	task := taskOf(e)
	if task == "" {
		return nil
	}
	run := &window.Run{Execution: e.ID, Calls: called(e)}
	if len(run.Calls) == 0 {
		return nil
	}
	p := &pair{task: task, label: events.Success, other: events.Failure, run: run}
	if e.Outcome.Label == events.Failure {
		p.label, p.other = p.other, p.label
	}
	return p
}

// taskOf is what attempts at one task have in common, whatever their ids are: what their source calls it, else the
// question with its context. The question of a later turn means something else in every session.
func taskOf(e *events.Execution) events.ID {
	switch {
	case e.Origin.Task != "":
		return events.Hash("same task", string(e.Book), e.Origin.Task)
	case e.Turn > 1 || strings.TrimSpace(e.Question) == "":
		return ""
	}
	return events.Hash("same question", string(e.Book), e.Question, e.Context)
}

// compare adds to a reflection what tells its run from the last one with the other end. The same run judged in another
// way before is no other run.
func (p *pair) compare(ctx context.Context, windows *window.Store, ref *events.Reflection) error {
	last, err := windows.LastRun(ctx, ref.Book, p.task, p.other)
	if err != nil || last == nil {
		return err
	}
	if p.moved = last.Execution == p.run.Execution; p.moved {
		return nil
	}
	good, bad := p.run.Calls, last.Calls
	if p.label == events.Failure {
		good, bad = bad, good
	}
	ref.Findings = append(ref.Findings, parted(good, bad)...)
	return nil
}

// keep makes the run known to those that come after it. It is done once the reflection is stored: of two runs that are
// reflected on at the same time then at most one sees the other, so that no pair counts twice. What is kept is a cache,
// and to keep it again changes nothing.
func (p *pair) keep(ctx context.Context, windows *window.Store, ref *events.Reflection) error {
	err := windows.PutRun(ctx, ref.Book, p.task, p.label, p.run)
	if err == nil && p.moved {
		err = windows.PutRun(ctx, ref.Book, p.task, p.other, nil)
	}
	return err
}

// parted is where two runs part. It is found twice, once each way around: the pair that speaks for one way speaks
// against the other, so that either bullet counts all pairs, and at most one of them can be shown.
func parted(good, bad []string) []events.Finding {
	i := 0
	for i < len(good) && i < len(bad) && good[i] == bad[i] {
		i++
	}
	if i == len(good) && i == len(bad) || i == window.MaxRunCalls {
		return nil
	}
	after, did, didNot := at(good, i-1, atStart), at(good, i, noMore), at(bad, i, noMore)
	after = tool(after)
	if tool(did) != tool(didNot) { // else the arguments are the difference
		did, didNot = tool(did), tool(didNot)
	}
	return []events.Finding{advice(after, did, didNot, events.Helpful), advice(after, didNot, did, events.Harmful)}
}

func at(calls []string, i int, otherwise string) string {
	if i < 0 || i >= len(calls) {
		return otherwise
	}
	return calls[i]
}

// tool is a call without its arguments.
func tool(call string) string {
	name, _, _ := strings.Cut(call, "(")
	return name
}

func advice(after, do, not string, v events.Vote) events.Finding {
	text := fmt.Sprintf("After %s, call %s and not %s", quoted(after), quoted(do), quoted(not))
	switch {
	case do == noMore:
		text = fmt.Sprintf("After %s, do not go on to %s", quoted(after), quoted(not))
	case not == noMore:
		text = fmt.Sprintf("After %s, go on to %s", quoted(after), quoted(do))
	}
	return events.Finding{
		Key: key(pairRule, after, do, not), Section: strategies, Vote: v, Paired: true, Confidence: pairConfidence / 100.0,
		Text: text + pairTally,
	}
}

// quoted is a call, or what stands for none, in a sentence. What a store holds may be anybody's, so it is cleaned here.
func quoted(call string) string {
	if call == atStart || call == noMore {
		return call
	}
	return "`" + clean(call, 2*maxName) + "`"
}

// called is what a run called: the tool with the names of its arguments, or what its command line did. Values differ
// from run to run and say nothing. Of equal ones in a row the first counts.
func called(e *events.Execution) []string {
	var calls []string
	all := callsOf(e)
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

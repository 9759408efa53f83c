package rules

import (
	"fmt"
	"slices"
	"strings"

	"debrief/events"
)

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

// FirstDifference returns two findings on the first call in which the runs differ: one advises the call of the
// successful run, the other the opposite. It returns nil for equal runs. The runs are results of [CallNames] with the
// same limit: behind it, a difference is unknown. Each pair of runs votes for one and against the other, so both bullets count
// all pairs, and at most one of them is shown.
func FirstDifference(good, bad []string, limit int) []events.Finding {
	i := 0
	for i < len(good) && i < len(bad) && good[i] == bad[i] {
		i++
	}
	if i == len(good) && i == len(bad) || i == limit {
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

// CallNames returns the first calls of a run, at most limit: the tool with the names of its arguments, or the command in its command line.
// It omits argument values, which differ from run to run. Equal calls in a row count once.
func CallNames(e *events.Execution, limit int) []string {
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
		if len(calls) == limit {
			break
		}
	}
	return calls
}

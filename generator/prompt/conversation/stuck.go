package conversation

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/events"
	"debrief/events/chat"
)

const (
	repetitions = 3 // number of repetitions that make a loop
	maxPeriod   = 4 // maximum number of calls in a cycle
)

// Recovery describes a loop and a way out of it.
type Recovery struct {
	Reason string // for a log, such as "the same call 3 times"
	Text   string // for the model: the repeated calls and a suggestion
}

// Stuck reports whether the work repeats without progress at the end of the steps. There are two cases. Either the same one to four
// calls came three times in a row, each time with the same result or a failure. Or three steps in a row were stuck or
// regressing. An error that was resolved later does not count, nor do repeated calls whose result changes.
//
// A user may ask for the same action again. So the work is never stuck right after a message of a user, and of the steps
// before the message only failures count.
func Stuck(steps []events.Step) (Recovery, bool) {
	if r, ok := findCycle(steps); ok {
		return r, true
	}
	return findNoProgress(steps)
}

// findCycle looks for a cycle of calls at the end, since the last user's turn.
func findCycle(steps []events.Step) (Recovery, bool) {
	const needed = repetitions * maxPeriod
	var calls []attempt // the last ones, newest first
	for _, s := range slices.Backward(steps) {
		if s.Speaker == chat.User || len(calls) == needed {
			break
		}
		for _, c := range slices.Backward(s.Calls) {
			if len(calls) < needed {
				calls = append(calls, newAttempt(&c))
			}
		}
	}
	for period := 1; period <= maxPeriod && repetitions*period <= len(calls); period++ {
		cycle, isSame := calls[:period], true
		for from := period; from < repetitions*period && isSame; from += period {
			isSame = sameCalls(cycle, calls[from:from+period])
		}
		if isSame {
			slices.Reverse(cycle) // oldest first
			return cycleRecovery(cycle), true
		}
	}
	return Recovery{}, false
}

// sameCalls reports whether two lists have the same calls with the same results or failures. A call with an unknown outcome is never the
// same, because it may have made progress.
func sameCalls(a, b []attempt) bool {
	return slices.EqualFunc(a, b, func(x, y attempt) bool {
		if x.key != y.key || x.call.Outcome == events.Unknown || y.call.Outcome == events.Unknown {
			return false
		}
		failed := x.call.Outcome.Failed()
		return failed == y.call.Outcome.Failed() && (failed || x.call.Output == y.call.Output)
	})
}

// findNoProgress looks for steps without progress at the end. It ignores steps without a known progress.
func findNoProgress(steps []events.Step) (Recovery, bool) {
	var past history
	var attempts []attempt // one for each step in a row without progress
	isCurrent := false     // the last attempt is after the last message of a user
	for i := range steps {
		s := &steps[i]
		if s.Speaker == chat.User {
			isCurrent = false
			// The user may have asked for the action again, unless it failed.
			if len(attempts) > 0 && !attempts[len(attempts)-1].failed() {
				attempts = nil
			}
			continue
		}
		computed, _ := past.add(s.Calls, argumentsOfAll(s.Calls))
		switch cmp.Or(statedProgress(s.Record), computed) {
		case events.Stuck, events.Regressing:
			attempts = append(attempts, lastAttempt(s))
			isCurrent = true
		case events.Advancing:
			attempts = nil
		}
	}
	if len(attempts) < repetitions || !isCurrent {
		return Recovery{}, false
	}
	return newRecovery(fmt.Sprintf("%d steps in a row without progress", repetitions), attempts[len(attempts)-repetitions:]), true
}

// statedProgress returns the progress that a record states, or "" if it is missing or unknown.
func statedProgress(record *events.Record) events.Progress {
	if record != nil {
		switch record.Progress {
		case events.Advancing, events.Stuck, events.Regressing:
			return record.Progress
		}
	}
	return ""
}

package records

import (
	"cmp"
	"slices"

	"debrief/events"
	"debrief/events/chat"
)

const (
	enough  = 3 // times that something happens before it is going in circles
	longest = 4 // calls in a circle
)

// Recovery is a way out of going in circles.
type Recovery struct {
	Why  string // for a log, such as "the same call 3 times"
	Text string // for the model: what repeats, and what to do instead
}

// Stuck reports whether the work has gone in circles up to now: the same one to four calls, three times over, each with
// the same result or failing each time; or three steps in a row that were stuck or regressing. An error that was
// recovered from is behind us, and a call whose result changes is waiting for something.
//
// A user may well ask for the same again. So right after a user's turn nothing is stuck, and of what came before it
// only steps in a row that failed count on.
func Stuck(steps []events.Step) (Recovery, bool) {
	if r, ok := circling(steps); ok {
		return r, true
	}
	return halted(steps)
}

// circling looks for a circle of calls at the end, since the last user's turn.
func circling(steps []events.Step) (Recovery, bool) {
	var calls []attempt // the last ones, newest first
	for _, s := range slices.Backward(steps) {
		if s.Speaker == chat.User || len(calls) == enough*longest {
			break
		}
		for _, c := range slices.Backward(s.Calls) {
			if len(calls) < enough*longest {
				calls = append(calls, newAttempt(&c))
			}
		}
	}
	for period := 1; period <= longest && enough*period <= len(calls); period++ {
		same := true
		for again := period; again < enough*period && same; again += period {
			same = alike(calls[:period], calls[again:again+period])
		}
		if same {
			circle := calls[:period]
			slices.Reverse(circle)
			return circleRecovery(circle), true
		}
	}
	return Recovery{}, false
}

// alike reports whether two rounds are the same calls with the same results, or failures.
func alike(a, b []attempt) bool {
	return slices.EqualFunc(a, b, func(x, y attempt) bool {
		if x.key != y.key || x.call.Outcome == events.Unknown || y.call.Outcome == events.Unknown {
			return false
		}
		failed := x.call.Outcome.Failed()
		return failed == y.call.Outcome.Failed() && (failed || x.call.Output == y.call.Output)
	})
}

// halted looks for steps at the end that brought nothing. Steps that say nothing of their progress are passed over.
func halted(steps []events.Step) (Recovery, bool) {
	var past history
	var tries []attempt
	current := false // the last try came after the last user's turn
	for i := range steps {
		s := &steps[i]
		if s.Speaker == chat.User {
			if current = false; len(tries) > 0 && !tries[len(tries)-1].failed() {
				tries = nil
			}
			continue
		}
		seen, _ := past.step(s.Calls, argumentsOfAll(s.Calls))
		switch cmp.Or(progress(s.Record), seen) {
		case events.Stuck, events.Regressing:
			tries, current = append(tries, lastTry(s)), true
		case events.Advancing:
			tries = nil
		}
	}
	if len(tries) < enough || !current {
		return Recovery{}, false
	}
	return haltRecovery(tries[len(tries)-enough:]), true
}

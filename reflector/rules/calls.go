package rules

import "debrief/events"

// HasSignal reports whether an execution without an outcome can teach something: it has two tool calls, or a failed one.
func HasSignal(e *events.Execution) bool {
	calls := 0
	for _, s := range e.Steps {
		for _, c := range s.Calls {
			calls++
			if calls > 1 || c.Outcome.Failed() {
				return true
			}
		}
	}
	return false
}

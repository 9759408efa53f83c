package rules

import (
	"maps"
	"slices"
	"strings"

	"debrief/events"
)

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

// CallNames returns the first calls of a run, at most limit: the tool with the names of its arguments, or the command in its command line.
// It omits argument values, which differ from run to run. Equal calls in a row count once.
func CallNames(e *events.Execution, limit int) []string {
	var calls []string
	r := newRun(e)
	for i := range r.acts {
		a := &r.acts[i]
		name := a.label.key()
		if names := slices.Sorted(maps.Keys(a.arguments.fields)); len(names) > 0 {
			name = a.name + "(" + strings.Join(names[:min(len(names), 8)], ", ") + ")"
		}
		name = quote(name, 2*maxName)
		if n := len(calls); n == 0 || calls[n-1] != name {
			calls = append(calls, name)
		}
		if len(calls) == limit {
			break
		}
	}
	return calls
}

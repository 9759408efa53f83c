package rules

import (
	"slices"
	"strings"

	"debrief/events"
)

// CallNames returns the first calls of a run, at most limit: the tool with the names of its arguments, or the command in its command line.
// It omits argument values, which differ from run to run. Equal calls in a row count once.
func CallNames(e *events.Execution, limit int) []string {
	var calls []string
	t := newRun(e)
	for i := range t.acts {
		a := &t.acts[i]
		name := a.label().key()
		if len(a.args) > 0 && a.word == t.calls[a.call].Tool {
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

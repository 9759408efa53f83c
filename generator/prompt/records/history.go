package records

import (
	"strings"

	"debrief/events"
)

// history holds the earlier calls to compare later ones with.
type history struct {
	last    map[callKey]lastResult
	changes int // number of calls that may have changed something
}

// lastResult is the result of the most recent call with a key.
type lastResult struct {
	output    string
	failed    bool
	hasResult bool // false if the outcome is unknown
	changes   int  // history.changes before the call; after it, once the call is in history.last
}

// add records the calls of one step with their arguments. It returns the progress of the step, "" without calls. The step is
// regressing if a call fails that worked the last time, stuck if every call failed or repeated an earlier answer, and advancing
// otherwise. repeats marks the calls that are useless repetitions: same tool, same arguments and same result, with only reading calls
// in between. Any other call in between may have changed something, so repeating the call was reasonable.
func (h *history) add(calls []events.ToolCall, args []arguments) (p events.Progress, repeats []bool) {
	if len(calls) == 0 {
		return "", nil
	}
	if h.last == nil {
		h.last = make(map[callKey]lastResult)
	}
	repeats = make([]bool, len(calls))
	unhelpful, regressed := 0, false
	for i := range calls {
		c := &calls[i]
		key := keyOf(c, args[i])
		now := lastResult{output: c.Output, failed: c.Outcome.Failed(), hasResult: c.Outcome != events.Unknown, changes: h.changes}
		previous, again := h.last[key]
		if again && previous.hasResult && now.hasResult {
			repeats[i] = previous == now
			regressed = regressed || now.failed && !previous.failed
		}
		if now.failed || repeats[i] {
			unhelpful++
		}
		if !readsOnly(c) {
			h.changes++
		}
		now.changes = h.changes
		h.last[key] = now
	}
	switch {
	case regressed:
		return events.Regressing, repeats
	case unhelpful == len(calls):
		return events.Stuck, repeats
	}
	return events.Advancing, repeats
}

// callKey identifies calls of the same tool with equivalent arguments.
type callKey struct{ tool, arguments string }

func keyOf(c *events.ToolCall, a arguments) callKey { return callKey{tool: c.Tool, arguments: a.key} }

// readsOnly reports whether the tool's name indicates that the call changes nothing. A ">" in the arguments may be a
// shell command that writes.
func readsOnly(c *events.ToolCall) bool {
	return verbFromName(c.Tool).readsOnly() && !strings.Contains(c.Arguments, ">")
}

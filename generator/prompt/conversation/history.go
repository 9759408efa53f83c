package conversation

import (
	"strings"

	"debrief/events"
)

// history holds the earlier calls that later calls are compared with.
type history struct {
	last    map[callKey]lastCall // the most recent call with each key
	changes int                  // number of calls so far that may have changed something
}

// lastCall is the most recent call with a key.
type lastCall struct {
	result
	changes int // history.changes right after the call
}

// result is the result of a call.
type result struct {
	output string
	failed bool
	known  bool // the outcome is known
}

// add records the calls of one step with their arguments. It returns the progress of the step, which is "" without calls:
//
//   - regressing, if a call failed that worked the last time
//   - stuck, if each call failed or was a useless repetition
//   - advancing, otherwise
//
// repeats reports for each call whether it is a useless repetition: same tool, same arguments and same result as an earlier call, and only
// reading calls in between. Any other call may have changed something, so that to repeat the call was reasonable.
func (h *history) add(calls []events.ToolCall, args []arguments) (p events.Progress, repeats []bool) {
	if len(calls) == 0 {
		return "", nil
	}
	if h.last == nil {
		h.last = make(map[callKey]lastCall)
	}
	repeats = make([]bool, len(calls))
	unhelpful, regressed := 0, false
	for i := range calls {
		c := &calls[i]
		key := keyOf(c, args[i])
		now := result{output: c.Output, failed: c.Outcome.Failed(), known: c.Outcome != events.Unknown}
		previous, found := h.last[key]
		if found && previous.known && now.known {
			onlyReads := previous.changes == h.changes // since the previous call
			repeats[i] = onlyReads && previous.result == now
			regressed = regressed || now.failed && !previous.failed
		}
		if now.failed || repeats[i] {
			unhelpful++
		}
		if !readsOnly(c) {
			h.changes++
		}
		h.last[key] = lastCall{now, h.changes}
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

// readsOnly reports whether a call changes nothing, by the name of its tool. It is false for arguments with a ">", which may be a shell command
// that writes.
func readsOnly(c *events.ToolCall) bool {
	return verbFromName(c.Tool).readsOnly() && !strings.Contains(c.Arguments, ">")
}

package records

import (
	"strings"

	"debrief/events"
)

// history is the calls so far, as far as later ones are compared with them.
type history struct {
	last    map[callKey]answer
	changes int // calls that may have changed something
}

// answer is what a call gave when it was made last.
type answer struct {
	output  string
	failed  bool
	known   bool // it has a result
	changes int  // those until then, itself included
}

// step takes the calls of one step, and says what they mean for its progress, and which of them repeat an earlier call
// to no use: the same tool with the same arguments and the same result, and every call between the two only looked.
// One that is not known to look may have changed something, so that trying again was right. The arguments are those of
// the calls.
func (h *history) step(calls []events.ToolCall, args []arguments) (p events.Progress, repeats []bool) {
	if len(calls) == 0 {
		return "", nil
	}
	if h.last == nil {
		h.last = make(map[callKey]answer)
	}
	repeats = make([]bool, len(calls))
	useless, broke := 0, false
	for i := range calls {
		c := &calls[i]
		key := keyOf(c, args[i])
		now := answer{c.Output, c.Outcome.Failed(), c.Outcome != events.Unknown, h.changes}
		before, again := h.last[key]
		if again && before.known && now.known {
			repeats[i] = before == now
			broke = broke || now.failed && !before.failed
		}
		if now.failed || repeats[i] {
			useless++
		}
		if !looks(c) {
			h.changes++
		}
		now.changes = h.changes
		h.last[key] = now
	}
	switch {
	case broke:
		return events.Regressing, repeats
	case useless == len(calls):
		return events.Stuck, repeats
	}
	return events.Advancing, repeats
}

// callKey is the same for calls of the same tool with the same arguments.
type callKey struct{ tool, arguments string }

func keyOf(c *events.ToolCall, a arguments) callKey { return callKey{c.Tool, a.key()} }

// looks reports whether the tool's name says that it leaves everything as it is. With a ">" in its arguments it may be
// a shell command that writes.
func looks(c *events.ToolCall) bool {
	return wordVerb(c.Tool).looks() && !strings.Contains(c.Arguments, ">")
}

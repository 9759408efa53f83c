package steps

import (
	"slices"
	"strings"

	"debrief/events"
)

// recordedCall is a call of a turn with its id and its place in the steps.
type recordedCall struct {
	OpenCall
	answered bool // it has a result
}

// callKey is the same for calls that may be one call, recorded several times. Clients use an id again for another call, so name and
// arguments are part of the key.
type callKey struct{ id, tool, arguments string }

// dropRepeated removes calls that were recorded again. Some recorders write a message again with all blocks so far, and may give it
// another id. Of calls with the same key, those with a result stay: each of them was made, because each got a result. If none has a
// result, the last one stays.
func (c *Conversation) dropRepeated() {
	answered, last := map[callKey]bool{}, map[callKey]int{}
	for i := range c.calls {
		k := c.keyOf(&c.calls[i])
		answered[k] = answered[k] || c.calls[i].answered
		last[k] = i
	}
	repeated := map[int][]int{} // by step
	for i := range c.calls {
		r := &c.calls[i]
		if r.ID == "" || r.answered {
			continue
		}
		k := c.keyOf(r)
		stays := !answered[k] && last[k] == i
		if !stays {
			repeated[r.Step] = append(repeated[r.Step], r.Call)
		}
	}
	if len(repeated) > 0 {
		c.removeCalls(repeated)
	}
}

func (c *Conversation) keyOf(r *recordedCall) callKey {
	call := &c.Steps[r.Step].Calls[r.Call]
	return callKey{r.ID, call.Tool, call.Arguments}
}

// removeCalls removes calls, and the text that was recorded again with them. The map has the indices of the calls by step. The places of
// calls are invalid then, so removeCalls forgets them.
func (c *Conversation) removeCalls(repeated map[int][]int) {
	kept := make([]events.Step, 0, len(c.Steps))
	ids := map[int]string{}
	before := -1 // index in kept of the last step, or -1 if that is a user's
	for i := range c.Steps {
		step := c.Steps[i]
		if drop := repeated[i]; drop != nil {
			var calls []events.ToolCall
			for j := range step.Calls {
				if !slices.Contains(drop, j) {
					calls = append(calls, step.Calls[j])
				}
			}
			step.Calls = calls
			if before >= 0 { // a repeated message has the text of the step before again
				step.Text = strings.TrimSpace(strings.TrimPrefix(step.Text, kept[before].Text))
			}
			if len(calls) == 0 && c.saidAgain(i) {
				continue
			}
		}
		if id := c.ids[i]; id != "" {
			ids[len(kept)] = id
		}
		before = len(kept)
		if step.Speaker == "user" {
			before = -1
		}
		kept = append(kept, step)
	}
	c.Steps = kept
	c.ids = ids
	c.calls = nil
	c.Open = nil
}

// saidAgain reports whether the text of step i is not lost without the step: it is empty, or the next step is of the assistant and repeats
// it.
func (c *Conversation) saidAgain(i int) bool {
	text := c.Steps[i].Text
	if text == "" {
		return true
	}
	if i+1 == len(c.Steps) {
		return false
	}
	next := &c.Steps[i+1]
	return next.Speaker == "assistant" && strings.HasPrefix(next.Text, text)
}

package steps

import (
	"slices"
	"strings"

	"debrief/events"
)

// recordedCall is a call of a turn, at the place where it was recorded first.
type recordedCall struct {
	OpenCall
	answered bool // it has a result
}

// callKey identifies a call of a run. Clients repeat ids, so name and arguments are part of it.
type callKey struct{ id, tool, arguments string }

// dropRepeated removes calls that were recorded again. Some recorders write a message again with all blocks so far, with or without
// another id of the message. Of calls with equal id, name and arguments, those with a result stay, because a client that repeats an id
// gets a result for each of its calls. If none has a result, the last one stays.
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
		if k := c.keyOf(r); r.ID != "" && !r.answered && (answered[k] || last[k] != i) {
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

// removeCalls removes calls, given by their indices in each step, and the text that was recorded again with them.
func (c *Conversation) removeCalls(repeated map[int][]int) {
	kept := make([]events.Step, 0, len(c.Steps))
	ids := map[int]string{}
	before := -1 // the step before in kept, if no user spoke since
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
			if before >= 0 { // the text so far stands in the step before
				step.Text = strings.TrimSpace(strings.TrimPrefix(step.Text, kept[before].Text))
			}
			if len(calls) == 0 && c.saidAgain(i) {
				continue
			}
		}
		if id := c.ids[i]; id != "" {
			ids[len(kept)] = id
		}
		kept = append(kept, step)
		if before = len(kept) - 1; step.Speaker == "user" {
			before = -1
		}
	}
	c.Steps, c.ids, c.calls, c.Open = kept, ids, nil, nil
}

// saidAgain reports whether the next step of the assistant repeats the text of a step, or the step has no text.
func (c *Conversation) saidAgain(i int) bool {
	text := c.Steps[i].Text
	return text == "" || i+1 < len(c.Steps) && c.Steps[i+1].Speaker == "assistant" && strings.HasPrefix(c.Steps[i+1].Text, text)
}

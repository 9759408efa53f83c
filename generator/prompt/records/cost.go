package records

import (
	"cmp"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/text"
)

// Call is one tool call of a run with its cost.
type Call struct {
	Iteration int           `json:"iteration"` // number of the agent's step, from 1
	Tool      string        `json:"tool"`
	Outcome   events.Label  `json:"outcome"`
	Rationale string        `json:"rationale,omitempty"` // the agent's text before the call
	Took      time.Duration `json:"duration_ns,omitempty"`
	Tokens    int           `json:"tokens"` // of arguments and output, by chat.Tokens
	// Usage is the usage of the model that requested the call. If a step has several calls, the first one has it.
	Usage chat.Usage `json:"usage,omitzero"`
}

// maxRationale is the maximum length of a rationale, in bytes.
const maxRationale = 1000

// Calls returns the tool calls of the steps in order. A step of a user is no iteration, and a text of the agent before that step is no
// rationale of a later call.
func Calls(steps []events.Step) (all []Call) {
	iteration := 0
	before := "" // the agent's text since the last calls
	for i := range steps {
		s := &steps[i]
		if s.Speaker == "user" {
			before = ""
			continue
		}
		iteration++
		if s.Text != "" {
			before = s.Text
		}
		for k := range s.Calls {
			c := &s.Calls[k]
			call := Call{
				Iteration: iteration, Tool: c.Tool, Outcome: cmp.Or(c.Outcome, events.Success), Rationale: text.Excerpt(before, maxRationale),
				Took: c.Duration, Tokens: chat.Tokens(c.Arguments) + chat.Tokens(c.Output),
			}
			if k == 0 {
				call.Usage = s.Usage
			}
			all = append(all, call)
		}
		if len(s.Calls) > 0 {
			before = ""
		}
	}
	return all
}

// Cost is the cost of all calls of one tool.
type Cost struct {
	Tool   string
	Calls  int
	Failed int
	Took   time.Duration
	Tokens int // of all arguments and outputs, by chat.Tokens
}

// Costs returns the costs of every tool, the one with the most tokens first.
func Costs(calls []Call) (list []Cost) {
	for _, c := range calls {
		at := slices.IndexFunc(list, func(sum Cost) bool { return sum.Tool == c.Tool })
		if at < 0 {
			at = len(list)
			list = append(list, Cost{Tool: c.Tool})
		}
		sum := &list[at]
		sum.Calls++
		sum.Took += c.Took
		sum.Tokens += c.Tokens
		if c.Outcome.Failed() {
			sum.Failed++
		}
	}
	slices.SortFunc(list, func(a, b Cost) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Tool, b.Tool))
	})
	return list
}

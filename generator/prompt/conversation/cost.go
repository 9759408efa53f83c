package conversation

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
	Iteration int           `json:"iteration"` // number of the step among those of the agent, from 1
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

// Calls returns the tool calls of the steps in order. It does not count the steps of a user as iterations. A text of the agent before such a step
// is not the rationale of a later call.
func Calls(steps []events.Step) (all []Call) {
	iteration := 0
	rationale := "" // the agent's last text since its last calls
	for i := range steps {
		s := &steps[i]
		if s.Speaker == chat.User {
			rationale = ""
			continue
		}
		iteration++
		if s.Text != "" {
			rationale = s.Text
		}
		for k := range s.Calls {
			c := &s.Calls[k]
			call := Call{
				Iteration: iteration, Tool: c.Tool, Outcome: cmp.Or(c.Outcome, events.Success), Rationale: text.Excerpt(rationale, maxRationale),
				Took: c.Duration, Tokens: chat.Tokens(c.Arguments) + chat.Tokens(c.Output),
			}
			if k == 0 {
				call.Usage = s.Usage
			}
			all = append(all, call)
		}
		if len(s.Calls) > 0 {
			rationale = ""
		}
	}
	return all
}

// Cost is the sum of the calls of one tool.
type Cost struct {
	Tool   string
	Calls  int
	Failed int // number of the calls that failed
	Took   time.Duration
	Tokens int // of all arguments and outputs, by chat.Tokens
}

// Costs returns the costs of every tool, the one with the most tokens first.
func Costs(calls []Call) (list []Cost) {
	for _, c := range calls {
		i := slices.IndexFunc(list, func(sum Cost) bool { return sum.Tool == c.Tool })
		if i < 0 {
			i = len(list)
			list = append(list, Cost{Tool: c.Tool})
		}
		sum := &list[i]
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

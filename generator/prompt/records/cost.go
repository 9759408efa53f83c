package records

import (
	"cmp"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// Cost is the cost of all calls of one tool.
type Cost struct {
	Tool   string
	Calls  int
	Failed int
	Took   time.Duration
	Tokens int // of all arguments and outputs, by chat.Tokens
}

// Costs returns the costs of every tool, the one with the most tokens first.
func Costs(steps []events.Step) []Cost {
	var list []Cost
	index := map[string]int{}
	for i := range steps {
		for _, c := range steps[i].Calls {
			at, known := index[c.Tool]
			if !known {
				at = len(list)
				index[c.Tool] = at
				list = append(list, Cost{Tool: c.Tool})
			}
			sum := &list[at]
			sum.Calls++
			sum.Took += c.Duration
			sum.Tokens += chat.Tokens(c.Arguments) + chat.Tokens(c.Output)
			if c.Outcome.Failed() {
				sum.Failed++
			}
		}
	}
	slices.SortFunc(list, func(a, b Cost) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Tool, b.Tool))
	})
	return list
}

package reflector

import (
	"fmt"

	"debrief/events"
)

// RulesVersion names the rules. It is part of the ids of reflections: a finding with another key, text or vote than
// before is another version's.
const RulesVersion = "rules1"

// rules are the reflector that needs no model. Each looks at one execution and keeps nothing of it; sums over
// executions are the Curator's (see events.Finding). The section is where a playbook has the bullets.
//
// A vote is the outcome of the run. What a tool reported is none: an error that the agent got over is no failed task,
// and a run may fail without one.
var rules = []struct {
	section string
	find    func(*trail) []events.Finding
	most    int // findings of one execution, the first ones
}{
	{"troubleshooting_and_pitfalls", toolErrors, 32},
	{"common_mistakes_to_avoid", repeatedCalls, 32},
	{"strategies_and_hard_rules", toolOrders, maxTools * (maxTools + 1) / 2},
}

// Bounds of what enters a finding.
const (
	maxErrors  = 256 // failed calls that are looked at, the first ones
	maxTools   = 24  // tools whose order is looked at, by their first call: at most 276 pairs
	maxQuote   = 160 // runes of an error as it is quoted
	maxName    = 64  // runes of the name of a tool or an argument
	maxChanged = 4   // arguments that are named as changed
	maxKey     = 200 // bytes of a key
)

// Inspect is what the rules find in one execution: in the same order every time, no key twice. Nothing is found in an
// execution without a signal.
func Inspect(e *events.Execution) []events.Finding {
	if !signal(e) {
		return nil
	}
	t := follow(e)
	var found []events.Finding
	keys := map[string]bool{}
	for _, r := range rules {
		left := r.most
		for _, f := range r.find(t) {
			if left == 0 {
				break
			}
			if keys[f.Key] {
				continue
			}
			left--
			keys[f.Key] = true
			f.Section, f.Vote = r.section, t.vote
			found = append(found, f)
		}
	}
	return found
}

// signal reports whether there is something for the rules: two tool calls, or an error. A lone read teaches nothing.
func signal(e *events.Execution) bool {
	calls := 0
	for _, s := range e.Steps {
		for _, c := range s.Calls {
			if calls++; calls > 1 || c.Outcome.Failed() {
				return true
			}
		}
	}
	return false
}

// trail is an execution as the rules see it: its tool calls in order, and how it ended.
type trail struct {
	calls []*events.ToolCall
	vote  events.Vote
}

func follow(e *events.Execution) *trail {
	t := &trail{vote: vote(e.Outcome.Label)}
	for i := range e.Steps {
		for j := range e.Steps[i].Calls {
			t.calls = append(t.calls, &e.Steps[i].Calls[j])
		}
	}
	return t
}

// vote is what a run says for whatever was seen in it. One that half worked says as little as one nobody judged.
func vote(l events.Label) events.Vote {
	switch l {
	case events.Success:
		return events.Helpful
	case events.Failure:
		return events.Harmful
	default:
		return events.Neutral
	}
}

const (
	tally     = "(runs: {runs}, of which {helpful} succeeded and {harmful} failed)"
	orderText = "Before `%[2]s`, call `%[1]s` first: {helpful} of {base.helpful} successful runs that used `%[2]s` did, {harmful} of {base.harmful} failed ones."
	usedText  = "`%s` was used in {helpful} successful and {harmful} failed runs."
)

// toolOrders finds which tools were used, and which was called before which for the first time. Only runs whose end is
// known count: the difference between successes and failures is all there is to it. Tools beyond the first maxTools
// are left out, both as one of a pair and as a base.
func toolOrders(t *trail) []events.Finding {
	if t.vote == events.Neutral {
		return nil
	}
	var tools []string
	seen := map[string]bool{}
	for _, c := range t.calls {
		if !seen[c.Tool] && len(tools) < maxTools {
			seen[c.Tool] = true
			tools = append(tools, c.Tool)
		}
	}
	var found []events.Finding
	for i, b := range tools {
		used := key("used", b)
		found = append(found, events.Finding{Key: used, CountOnly: true, Text: fmt.Sprintf(usedText, clean(b, maxName))})
		for _, a := range tools[:i] {
			found = append(found, events.Finding{
				Key:  key("order", a, b),
				Base: used,
				Text: fmt.Sprintf(orderText, clean(a, maxName), clean(b, maxName)),
			})
		}
	}
	return found
}

package reflector

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"debrief/events"
)

const (
	againText   = "`%s` answered \"%s\"; what worked next: `%[1]s` again with other %[3]s " + tally + "."
	sameText    = "`%s` answered \"%s\"; what worked next: `%[1]s` again with the same arguments " + tally + "."
	insteadText = "`%s` answered \"%s\" and did not work later; what worked next: `%s` " + tally + "."
	neverText   = "`%s` answered \"%s\"; no later call of it worked " + tally + "."
)

// toolErrors finds what a tool answered when it failed, and what came of it. Of failures that follow one another with
// the same error the last one speaks. When a later call of the same tool worked, the finding says which arguments were
// other than in the call that failed. Otherwise one finding says that none worked, under a key that all such runs
// share, and another one what did work next, if anything did. Failures beyond the first maxErrors are not looked at.
func toolErrors(t *trail, _ *rule) []events.Finding {
	ahead := t.ahead()
	var found []events.Finding
	for i, c := range t.calls {
		if next := ahead[i].next; t.quote(i) == "" || next != none && t.quote(next) == t.quote(i) {
			continue
		}
		tool, quote := clean(c.Tool, maxName), t.quote(i)
		if again := ahead[i].again; again != none {
			found = append(found, recovered(c, t.calls[again], tool, quote))
			continue
		}
		found = append(found, events.Finding{Key: key("error", c.Tool, quote, "never"), Text: fmt.Sprintf(neverText, tool, quote)})
		if other := ahead[i].other; other != none {
			then := t.calls[other].Tool
			found = append(found, events.Finding{
				Key:  key("error", c.Tool, quote, "then "+then),
				Text: fmt.Sprintf(insteadText, tool, quote, clean(then, maxName)),
			})
		}
	}
	return found
}

// recovered is the finding about a call that failed and a later one of the same tool that worked.
func recovered(failed, after *events.ToolCall, tool, quote string) events.Finding {
	names := changed(failed.Arguments, after.Arguments)
	if len(names) == 0 {
		return events.Finding{Key: key("error", failed.Tool, quote, "again"), Text: fmt.Sprintf(sameText, tool, quote)}
	}
	return events.Finding{
		Key:  key("error", failed.Tool, quote, "again with "+strings.Join(names, ",")),
		Text: fmt.Sprintf(againText, tool, quote, list(names)),
	}
}

// quote is the error of a call as findings quote it, empty where it did not fail or comes after maxErrors that did.
func (t *trail) quote(call int) string {
	if t.quotes == nil {
		t.quotes = make([]string, len(t.calls))
		for i, left := 0, maxErrors; i < len(t.calls) && left > 0; i++ {
			if c := t.calls[i]; c.Outcome.Failed() {
				t.quotes[i] = quoteError(c.Output)
				left--
			}
		}
	}
	return t.quotes[call]
}

func (t *trail) ahead() []ahead {
	if t.after == nil {
		t.after = lookAhead(t.calls, t.turns)
	}
	return t.after
}

const none = -1

// ahead is what comes after a call, as indices: the next call of the same tool, the next of them that worked, and the
// next of all calls that worked. The last one is of a later turn: who calls several tools at once does not yet know that
// one of them fails.
type ahead struct{ next, again, other int }

func lookAhead(calls []*events.ToolCall, turns []int) []ahead {
	after := make([]ahead, len(calls))
	byTool := map[string]ahead{}
	worked, inTurn := none, none
	for i, c := range slices.Backward(calls) {
		if i+1 < len(calls) && turns[i] != turns[i+1] {
			worked = inTurn
		}
		a, ok := byTool[c.Tool]
		if !ok {
			a = ahead{none, none, none}
		}
		a.other = worked
		after[i] = a
		a.next = i
		if !c.Outcome.Failed() && c.Outcome != events.Unknown { // agents that say nothing of a call mean that it worked
			a.again, inTurn = i, i
		}
		byTool[c.Tool] = a
	}
	return after
}

// changed are the names of the arguments in which two calls differ, sorted; "arguments" where they have no names.
func changed(before, after string) []string {
	x, okX := named(before)
	y, okY := named(after)
	if !okX || !okY {
		if canonical(before) == canonical(after) {
			return nil
		}
		return []string{"arguments"}
	}
	var names []string
	for name, v := range x {
		if w, ok := y[name]; !ok || canonical(string(v)) != canonical(string(w)) {
			names = append(names, clean(name, maxName))
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			names = append(names, clean(name, maxName))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func named(arguments string) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	err := json.Unmarshal([]byte(arguments), &m)
	return m, err == nil && m != nil
}

// list is names in a sentence: "a", "a and b", "a, b and c", of many the first and how many more.
func list(names []string) string {
	if len(names) > maxChanged {
		rest := len(names) - maxChanged
		names = append(slices.Clone(names[:maxChanged]), fmt.Sprintf("%d more", rest))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

package rules

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

// toolErrors finds the errors of tools and their recoveries. In a row of equal errors it uses the last one. If a later
// call of the same tool worked, the finding names the arguments that changed. Otherwise one finding says that no later
// call worked, under a key that all such runs share, and another one names the tool that worked next, if any. Failures
// beyond the first maxErrors are ignored.
func toolErrors(t *run, _ *rule) []events.Finding {
	ahead := t.nextCalls()
	var found []events.Finding
	for i, c := range t.calls {
		if next := ahead[i].next; t.quote(i) == "" || next != noCall && t.quote(next) == t.quote(i) {
			continue
		}
		tool, quote := clean(c.Tool, maxName), t.quote(i)
		if again := ahead[i].again; again != noCall {
			found = append(found, recoveredFinding(c, t.calls[again], tool, quote))
			continue
		}
		found = append(found, events.Finding{Key: key("error", c.Tool, quote, "never"), Text: fmt.Sprintf(neverText, tool, quote)})
		if other := ahead[i].other; other != noCall {
			then := t.calls[other].Tool
			found = append(found, events.Finding{
				Key:  key("error", c.Tool, quote, "then "+then),
				Text: fmt.Sprintf(insteadText, tool, quote, clean(then, maxName)),
			})
		}
	}
	return found
}

// recoveredFinding returns the finding about a failed call and a later call of the same tool that worked.
func recoveredFinding(failed, after *events.ToolCall, tool, quote string) events.Finding {
	names := changedArguments(failed.Arguments, after.Arguments)
	if len(names) == 0 {
		return events.Finding{Key: key("error", failed.Tool, quote, "again"), Text: fmt.Sprintf(sameText, tool, quote)}
	}
	return events.Finding{
		Key:  key("error", failed.Tool, quote, "again with "+strings.Join(names, ",")),
		Text: fmt.Sprintf(againText, tool, quote, list(names)),
	}
}

// quote returns the error of a call as findings quote it. It is "" for a call that did not fail or is beyond
// maxErrors.
func (t *run) quote(call int) string {
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

func (t *run) nextCalls() []nextCalls {
	if t.after == nil {
		t.after = findNextCalls(t.calls, t.turns)
	}
	return t.after
}

const noCall = -1

// nextCalls holds indices of calls after a call: the next call of the same tool, the next of those that worked, and
// the next call of any tool that worked. The last one is of a later turn: an agent that calls several tools at once
// does not know yet that one of them fails.
type nextCalls struct{ next, again, other int }

func findNextCalls(calls []*events.ToolCall, turns []int) []nextCalls {
	after := make([]nextCalls, len(calls))
	byTool := map[string]nextCalls{}
	worked, inTurn := noCall, noCall
	for i, c := range slices.Backward(calls) {
		if i+1 < len(calls) && turns[i] != turns[i+1] {
			worked = inTurn
		}
		a, ok := byTool[c.Tool]
		if !ok {
			a = nextCalls{noCall, noCall, noCall}
		}
		a.other = worked
		after[i] = a
		a.next = i
		if !c.Outcome.Failed() && c.Outcome != events.Unknown { // a call without an outcome counts as successful
			a.again, inTurn = i, i
		}
		byTool[c.Tool] = a
	}
	return after
}

// changedArguments returns the sorted names of the arguments that differ, or "arguments" if they have no names.
func changedArguments(before, after string) []string {
	x, okX := parseArguments(before)
	y, okY := parseArguments(after)
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

func parseArguments(arguments string) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	err := json.Unmarshal([]byte(arguments), &m)
	return m, err == nil && m != nil
}

// list joins names in a sentence: "a", "a and b", "a, b and c". Beyond maxChanged names it gives the number of the
// rest.
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

package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"debrief/events"
)

const repeatText = "`%s` was called again with the same arguments and gave the same answer, with nothing changed in between; use the answer you have " + tally + "."

// repeatedCalls finds calls that could not return anything new: the same tool with the same arguments gave the same
// answer again, and all calls in between only read. Any other call may have changed something, so a repetition after
// it is useful.
func repeatedCalls(t *run, _ *rule) []events.Finding {
	type question struct{ tool, arguments string }
	type answer struct {
		output  string
		changes int // calls so far that may have changed something, including this one
	}
	answers := map[question]answer{}
	var found []events.Finding
	reported := map[string]bool{}
	changes := 0
	for i, c := range t.calls {
		before := changes
		if !onlyReads(c) {
			changes++
		}
		if c.Outcome == events.Unknown {
			continue // no answer
		}
		q := question{c.Tool, t.canonical(i)}
		last, asked := answers[q]
		answers[q] = answer{c.Output, changes}
		if !asked || last.changes != before || last.output != c.Output || reported[c.Tool] {
			continue
		}
		reported[c.Tool] = true
		found = append(found, events.Finding{Key: key("repeat", c.Tool), Text: fmt.Sprintf(repeatText, clean(c.Tool, maxName))})
	}
	return found
}

// readVerbs are first words of names of tools that only read. Any other tool counts as a change, also one that moves a
// view (open, scroll), because the next call depends on it.
var readVerbs = map[string]bool{
	"calculate": true, "cat": true, "count": true, "describe": true, "fetch": true, "find": true, "get": true, "grep": true,
	"list": true, "lookup": true, "ls": true, "query": true, "read": true, "retrieve": true, "search": true, "show": true,
	"think": true, "view": true,
}

// onlyReads reports whether the name of a tool shows that it only reads: get_user, listFiles, search-code. A ">" in
// the arguments may be a shell redirection that writes.
func onlyReads(c *events.ToolCall) bool {
	word := strings.TrimLeft(c.Tool, "_")
	if end := strings.IndexFunc(word, func(r rune) bool { return !unicode.IsLower(r) }); end > 0 {
		word = word[:end]
	}
	return readVerbs[word] && !strings.Contains(c.Arguments, ">")
}

// canonical returns the arguments of a call in canonical form.
func (t *run) canonical(call int) string {
	if t.canonicalArgs == nil {
		t.canonicalArgs = make([]string, len(t.calls))
	}
	if t.canonicalArgs[call] == "" {
		t.canonicalArgs[call] = canonical(t.calls[call].Arguments)
	}
	return t.canonicalArgs[call]
}

// canonical returns arguments in canonical form: JSON with sorted names and without white space, other text trimmed.
// It returns arguments over 64 KB unchanged.
func canonical(arguments string) string {
	arguments = strings.TrimSpace(arguments)
	if len(arguments) > 64<<10 {
		return arguments
	}
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return arguments
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return arguments
	}
	return strings.TrimSuffix(b.String(), "\n")
}

package reflector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"debrief/events"
)

const repeatText = "`%s` was called again with the same arguments and gave the same answer, with nothing changed in between; use the answer you have " + tally + "."

// repeatedCalls finds calls that could not teach anything: the same tool with the same arguments gave the same answer
// once more, and every call between the two only read. A call that is not known to read may have changed something, so
// that looking again was right; one whose second answer differs told something new.
func repeatedCalls(t *trail, _ *rule) []events.Finding {
	type question struct{ tool, arguments string }
	type answer struct {
		output  string
		changes int // calls so far that may have changed something, this one included
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

// reading are the first words of tools that look and leave everything as it is. Any other tool counts as changing, also
// one that moves a view (open, scroll): what comes next depends on it.
var reading = map[string]bool{
	"calculate": true, "cat": true, "count": true, "describe": true, "fetch": true, "find": true, "get": true, "grep": true,
	"list": true, "lookup": true, "ls": true, "query": true, "read": true, "retrieve": true, "search": true, "show": true,
	"think": true, "view": true,
}

// onlyReads reports whether the tool's name says that it only reads: get_user, listFiles, search-code. With a ">" in its
// arguments it may be a shell command that writes.
func onlyReads(c *events.ToolCall) bool {
	word := strings.TrimLeft(c.Tool, "_")
	if end := strings.IndexFunc(word, func(r rune) bool { return !unicode.IsLower(r) }); end > 0 {
		word = word[:end]
	}
	return reading[word] && !strings.Contains(c.Arguments, ">")
}

// canonical is the arguments of a call in one spelling.
func (t *trail) canonical(call int) string {
	if t.spelled == nil {
		t.spelled = make([]string, len(t.calls))
	}
	if t.spelled[call] == "" {
		t.spelled[call] = canonical(t.calls[call].Arguments)
	}
	return t.spelled[call]
}

// canonical is arguments in one spelling: JSON with sorted names and without white space, other text trimmed. Arguments
// too large to be worth it stay as they are.
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

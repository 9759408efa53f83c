package records

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"debrief/events"
)

const (
	arrow     = "→"
	arrowRoom = 3 // characters that it takes in a line

	maxName  = 40 // characters of a tool's name
	maxAbout = 80 // characters of what a call was about
	maxValue = 60 // characters of one argument
)

// line is a call in one line: what was done, to what, and what came of it. learned is what its agent says it taught.
func line(c *events.ToolCall, a arguments, learned string) string {
	v := verbOf(c.Tool, a)
	did := string(v)
	if v == called {
		did = calledTool(c.Tool)
	}
	if about := a.telling(v); about != "" {
		did += " " + about
	}
	room := MaxLine - utf8.RuneCountInString(did) - arrowRoom
	switch {
	case c.Outcome.Failed():
		learned = failure(c)
	case learned == "":
		learned = result(c, v.searches())
	}
	if learned = clean(learned, room); learned == "" {
		learned = "nothing to read"
	}
	return did + " " + arrow + " " + learned
}

func calledTool(tool string) string { return "called `" + toolName(tool) + "`" }

// toolName is a tool's name as a line has it.
func toolName(tool string) string {
	if tool = clean(tool, maxName); tool != "" {
		return tool
	}
	return "?"
}

// failure says how a call failed, and with what error if it says so.
func failure(c *events.ToolCall) string {
	how := "failed"
	if c.Outcome == events.TimedOut {
		how = "timed out"
	}
	if why := errorLine(c.Output); why != "" {
		const known = "error: "
		if len(why) > len(known) && strings.EqualFold(why[:len(known)], known) {
			why = why[len(known):]
		}
		return how + ": " + why
	}
	return how
}

// result is what a call that did not fail returned: how much, and the beginning of it.
func result(c *events.ToolCall, searched bool) string {
	found := ""
	if searched {
		found = "found "
	}
	output := strings.TrimSpace(c.Output)
	switch {
	case output == "" && c.Outcome == events.Unknown:
		return "no result recorded"
	case isNothing(output) && searched:
		return "found nothing"
	case output == "":
		return "no output"
	}
	if n, whole, ok := items(output); ok {
		return found + count(n, whole, "item") + fields(output)
	}
	if output[0] == '{' {
		if said := fields(output); said != "" {
			return found + strings.TrimPrefix(said, ": ")
		}
	}
	said := tellingLine(output)
	lines := 1 + strings.Count(output, "\n")
	if lines == 1 {
		return found + said
	}
	return found + count(lines, !strings.HasSuffix(output, cutMark), "line") + ": " + said
}

// cutMark ends what events.Cut has shortened.
const cutMark = " bytes left out]"

func count(n int, whole bool, what string) string {
	more := ""
	if !whole {
		more = " or more"
	}
	if n != 1 || !whole {
		what += "s"
	}
	return fmt.Sprintf("%d%s %s", n, more, what)
}

// isNothing reports whether an output, without the space around it, holds nothing.
func isNothing(output string) bool {
	if len(output) > 16 {
		return false
	}
	switch strings.Join(strings.Fields(output), "") {
	case "", "[]", "{}", "[[]]", `""`, "null", "None":
		return true
	}
	return false
}

// maxShown is how many values of a JSON output are put in a line; more would not fit.
const maxShown = 8

// fields are the first values of a JSON output, with their names, after a colon; "" if there are none.
func fields(output string) string {
	list, _ := leaves(output[:min(len(output), maxRead)], maxShown)
	var b strings.Builder
	sep := ": "
	for _, l := range list {
		value := clean(l.value, maxValue)
		if value == "" || l.empty {
			continue
		}
		b.WriteString(sep)
		if name := clean(l.name, maxName); name != "" {
			b.WriteString(name + " ")
		}
		b.WriteString(value)
		sep = ", "
	}
	return b.String()
}

// items counts what a JSON list holds. whole is false where the end is missing. Text that merely begins with a bracket,
// such as a log's, is no list.
func items(output string) (n int, whole, ok bool) {
	rest, isList := strings.CutPrefix(output, "[")
	if rest = strings.TrimLeft(rest, " \t\r\n"); !isList || rest == "" || !strings.Contains(`{["-0123456789tfn]`, rest[:1]) {
		return 0, false, false
	}
	if rest[0] != ']' {
		n = 1
	}
	depth, quoted := 1, false
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return n, true, i == len(rest)-1
			}
		case c == ',' && depth == 1:
			n++
		}
	}
	return n, false, true
}

package records

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"debrief/events"
)

const (
	arrow     = "→"
	arrowRoom = 3 // characters of the arrow and its spaces

	maxName    = 40 // maximum length of a tool's name in characters
	maxSummary = 80 // maximum length of the summary of a call's arguments
	maxValue   = 60 // maximum length of one argument
)

// callLine describes a call in one line: action, arguments and result. learned is the agent's own lesson; it replaces
// the result of a successful call.
func callLine(c *events.ToolCall, a arguments, learned string) string {
	v := callVerb(c.Tool, a)
	action := string(v)
	if v == called {
		action = calledTool(c.Tool)
	}
	if summary := a.summary(v); summary != "" {
		action += " " + summary
	}
	room := MaxLine - utf8.RuneCountInString(action) - arrowRoom
	switch {
	case c.Outcome.Failed():
		learned = failureText(c)
	case learned == "":
		learned = resultText(c, v.searches())
	}
	if learned = clean(learned, room); learned == "" {
		learned = "nothing to read"
	}
	return action + " " + arrow + " " + learned
}

func calledTool(tool string) string { return "called `" + toolName(tool) + "`" }

// toolName returns a tool's name for a line, "?" if it is empty.
func toolName(tool string) string {
	if tool = clean(tool, maxName); tool != "" {
		return tool
	}
	return "?"
}

// failureText describes a failure, with the error message if the output has one.
func failureText(c *events.ToolCall) string {
	text := "failed"
	if c.Outcome == events.TimedOut {
		text = "timed out"
	}
	if reason := errorLine(c.Output); reason != "" {
		const known = "error: "
		if len(reason) > len(known) && strings.EqualFold(reason[:len(known)], known) {
			reason = reason[len(known):]
		}
		return text + ": " + reason
	}
	return text
}

// resultText describes the result of a successful call: its size and beginning.
func resultText(c *events.ToolCall, searched bool) string {
	found := ""
	if searched {
		found = "found "
	}
	output := strings.TrimSpace(c.Output)
	switch {
	case output == "" && c.Outcome == events.Unknown:
		return "no result recorded"
	case isEmptyOutput(output) && searched:
		return "found nothing"
	case output == "":
		return "no output"
	}
	if n, complete, ok := countItems(output); ok {
		return found + countText(n, complete, "item") + fields(output)
	}
	if output[0] == '{' {
		if text := fields(output); text != "" {
			return found + strings.TrimPrefix(text, ": ")
		}
	}
	text := firstReadableLine(output)
	lines := 1 + strings.Count(output, "\n")
	if lines == 1 {
		return found + text
	}
	return found + countText(lines, !strings.HasSuffix(output, cutMark), "line") + ": " + text
}

// cutMark is the end of a text that events.TruncateChars shortened.
const cutMark = " bytes left out]"

func countText(n int, complete bool, noun string) string {
	more := ""
	if !complete {
		more = " or more"
	}
	if n != 1 || !complete {
		noun += "s"
	}
	return fmt.Sprintf("%d%s %s", n, more, noun)
}

// isEmptyOutput reports whether a trimmed output has no content.
func isEmptyOutput(output string) bool {
	if len(output) > 16 {
		return false
	}
	switch strings.Join(strings.Fields(output), "") {
	case "", "[]", "{}", "[[]]", `""`, "null", "None":
		return true
	}
	return false
}

// maxFields is the maximum number of JSON values in a line; more would not fit.
const maxFields = 8

// fields returns the first values of a JSON output with their names, after a colon. It returns "" without values.
func fields(output string) string {
	list, _ := leaves(output[:min(len(output), maxRead)], maxFields)
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

// countItems counts the elements of a JSON list. complete is false if the end is missing. ok is false for text that
// only begins with a bracket, such as a log line.
func countItems(output string) (n int, complete, ok bool) {
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

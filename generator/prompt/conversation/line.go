package conversation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"debrief/events"
	"debrief/playbook/text"
)

const (
	arrow     = "→"
	arrowRoom = 3 // characters of the arrow and its spaces

	markup = "#*+-=|~›… " // characters that may begin a heading, a list or the rest of a shortened text

	maxName    = 40 // maximum length of a tool's name in characters
	maxSummary = 80 // maximum length of the summary of a call's arguments
	maxValue   = 60 // maximum length of one argument
)

// callLine describes a call in one line: action, arguments and result. If lesson is not "", it replaces the result of a successful call.
func callLine(c *events.ToolCall, a arguments, lesson string) string {
	v := callVerb(c.Tool, a)
	action := string(v)
	if v == called {
		action = calledTool(c.Tool)
	}
	if summary := a.summary(v); summary != "" {
		action += " " + summary
	}
	room := MaxLine - utf8.RuneCountInString(action) - arrowRoom
	result := lesson
	switch {
	case c.Outcome.Failed():
		result = failureText(c)
	case lesson == "":
		result = resultText(c, v)
	}
	return action + " " + arrow + " " + cmp.Or(clean(result, room), "nothing to read")
}

// calledTool returns the action of a call with the verb called.
func calledTool(tool string) string { return "called `" + toolName(tool) + "`" }

// toolName returns a tool's name for a line, "?" if it is empty.
func toolName(tool string) string { return cmp.Or(clean(tool, maxName), "?") }

// failureText describes a failure, with the error message if the output has one.
func failureText(c *events.ToolCall) string {
	if reason := text.ErrorLine(c.Output); reason != "" {
		return failureVerb(c) + ": " + reason
	}
	return failureVerb(c)
}

func failureVerb(c *events.ToolCall) string {
	if c.Outcome == events.TimedOut {
		return "timed out"
	}
	return "failed"
}

// resultText describes the result of a successful call with the verb v: its size and beginning. The result of a search begins with "found".
func resultText(c *events.ToolCall, v verb) string {
	found := ""
	if v.searches() {
		found = "found "
	}
	output := strings.TrimSpace(c.Output)
	switch {
	case output == "" && c.Outcome == events.Unknown:
		return "no result recorded"
	case isEmptyOutput(output) && v.searches():
		return "found nothing"
	case output == "":
		return "no output"
	}
	isCut := strings.HasSuffix(output, cutMark)
	if isCut {
		output = output[:max(0, strings.LastIndex(output, text.Ellipsis))]
	}
	if n, complete, ok := countItems(output); ok {
		return found + countText(n, complete, "item") + fields(output)
	}
	if strings.HasPrefix(output, "{") {
		if text := fields(output); text != "" {
			return found + strings.TrimPrefix(text, ": ")
		}
	}
	first := firstReadableLine(output)
	if lines := 1 + strings.Count(output, "\n"); lines > 1 {
		return found + countText(lines, !isCut, "line") + ": " + first
	}
	return found + first
}

// cutMark ends a text that events.TruncateChars has shortened, such as "… [120 bytes left out]".
const cutMark = " bytes left out]"

// countText formats a number of items or lines, such as "3 lines". If the output is not complete, it is "3 or more lines".
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

// fields returns the first values of a JSON output with their names, such as ": flight HAT139, price 112". It returns "" without values.
func fields(output string) string {
	list := text.Leaves(output[:min(len(output), maxCallRead)])
	var values []string
	for _, l := range list[:min(len(list), maxFields)] {
		if value := clean(l.Value, maxValue); value != "" {
			values = append(values, strings.TrimSpace(clean(l.Name, maxName)+" "+value))
		}
	}
	if len(values) == 0 {
		return ""
	}
	return ": " + strings.Join(values, ", ")
}

// countItems counts the elements of a JSON list. complete is false if the end of the list is missing. ok is false for other text, also if it
// begins with a bracket, such as a log line.
func countItems(output string) (n int, complete, ok bool) {
	d := json.NewDecoder(strings.NewReader(output))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return 0, false, false
	}
	for d.More() {
		n++
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return n, false, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
	if _, err := d.Token(); err != nil { // instead of the closing bracket
		return n, false, n > 0
	}
	_, err := d.Token() // the end of the output
	return n, true, err == io.EOF
}

// sanitizeLine cleans a line that an agent or a Reflector wrote. The first arrow stays, and so do the backticks around the name of a
// tool after "called". The line then does not begin like a heading or a list. Lines from this package stay unchanged.
func sanitizeLine(s string) string {
	action, outcome, _ := strings.Cut(s[:min(len(s), maxCallRead)], arrow)
	if rest, ok := strings.CutPrefix(action, string(called)+" `"); ok {
		tool, summary, _ := strings.Cut(rest, "`")
		action = strings.TrimSpace(calledTool(tool) + " " + clean(summary, maxSummary))
	} else {
		action = strings.TrimLeft(clean(action, MaxLine), markup)
	}
	outcome = clean(outcome, MaxLine)
	switch {
	case action == "":
		return strings.TrimLeft(outcome, markup)
	case outcome == "":
		return action
	}
	if room := MaxLine - utf8.RuneCountInString(action) - arrowRoom; room > 0 {
		return action + " " + arrow + " " + clean(outcome, room)
	}
	return action
}

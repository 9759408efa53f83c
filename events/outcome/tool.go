// Package outcome reads outcomes: of runs, as persons, programs and files write them, and of tool calls, from their marks and
// their text. It also compares answers with targets. All readers use it, so a form is understood on each path or on none.
package outcome

import (
	"slices"
	"strings"

	"debrief/events"
)

// Signs are the facts that a recorder states about the end of a tool call, beside its output. The zero value has no sign.
type Signs struct {
	Error    *bool  `msgpack:"e,omitempty"` // its mark for an error; nil if the format has none
	ExitCode *int   `msgpack:"x,omitempty"` // of the command; nil without one
	Status   string `msgpack:"s,omitempty"` // its word for the end of the call, such as "success" or "cancelled"
	// MarksAll: the recorder marks each call that failed, so that a call without a mark has worked. Its text is not searched for
	// error messages, except for toolUseError at its beginning.
	MarksAll bool `msgpack:"a,omitempty"`
}

// stillRuns is the exit code that harnesses record for a command that has not ended.
const stillRuns = -1

// Words of Signs.Status, in lower case. Others, such as "completed", say only that the call has ended.
var (
	failedWords   = []string{"error", "failed", "failure", "timeout", "timed_out", "killed"}
	workedWords   = []string{"success", "succeeded"}
	declinedWords = []string{"cancelled", "canceled", "rejected", "declined", "aborted"}
)

// Failed reports whether a sign says that the call failed.
func (s Signs) Failed() bool {
	hasError := s.Error != nil && *s.Error
	hasFailureCode := s.ExitCode != nil && *s.ExitCode != 0 && *s.ExitCode != stillRuns
	return hasError || hasFailureCode || s.hasStatus(failedWords)
}

func (s Signs) hasStatus(words []string) bool {
	return slices.Contains(words, strings.ToLower(s.Status))
}

// isDeclined reports whether a person refused the call or stopped it, so that it neither worked nor failed.
func (s Signs) isDeclined(output string) bool {
	return s.hasStatus(declinedWords) || s.Failed() && declined().MatchString(output)
}

// OfTool returns the outcome of a tool call with this output: Success, Failure or Unknown. Call names the tool and its
// arguments; its own output and outcome are ignored. All recorders and APIs hand their signs to this function, and none decides
// itself.
//
// A declined call is Unknown. Else a mark for an error decides, then an exit code, then a word for a failure. Without them the
// call of a recorder with MarksAll worked. Otherwise the text decides, in this order: an exit code, the fields of a
// JSON value, the forms of error messages. An output that only mentions an error, such as a log or a page about errors, is not
// a failure. A mark for no error counts only if the text says nothing: some recorders set it for each call that returned.
//
// Success needs a sign: a mark, an exit code, a field such as "success", or an output without any word of failure where an
// error message would be. Without a sign the outcome is Unknown, as for an empty output. A learner that needs a call that
// worked uses only Success.
func OfTool(call *events.ToolCall, output string, signs Signs) events.Label {
	if call == nil {
		call = &events.ToolCall{}
	}
	o := newToolOutput(call, output)
	switch {
	case signs.isDeclined(output):
		return events.Unknown
	case signs.Error != nil && *signs.Error:
		return events.Failure
	case signs.ExitCode != nil:
		return o.ofExitCode(*signs.ExitCode, output)
	case signs.Failed():
		return events.Failure
	case signs.MarksAll:
		return labelOf(!strings.HasPrefix(output, toolUseError))
	}
	label := o.label()
	if label == events.Unknown && (signs.Error != nil || signs.hasStatus(workedWords)) {
		return events.Success
	}
	return label
}

// toolOutput is the output of a tool call.
type toolOutput struct {
	text         string
	programs     []string // that the command line runs; nil for another call
	isCommand    bool     // the call is a command line
	showsContent bool     // the output shows the content of files, pages or records, which may contain error messages
	depth        int      // number of envelopes around text
}

func newToolOutput(call *events.ToolCall, output string) *toolOutput {
	o := &toolOutput{text: output}
	if line := commandLine(call); line != "" {
		o.isCommand, o.programs = true, programs(line)
		o.showsContent = slices.ContainsFunc(o.programs, func(p string) bool { return viewerPrograms[p] })
		return o
	}
	o.showsContent = isViewer(call.Tool)
	return o
}

// maxEnvelopes bounds the envelopes around an output, such as {"result": "{\"output\": …}"}.
const maxEnvelopes = 4

// ofText returns the outcome of a text inside the output.
func (o *toolOutput) ofText(text string) events.Label {
	inner := *o
	inner.text = text
	inner.depth++
	if inner.depth > maxEnvelopes {
		return events.Unknown
	}
	return inner.label()
}

// label returns the outcome according to the text.
func (o *toolOutput) label() events.Label {
	text := editorPrompt().ReplaceAllString(colours().ReplaceAllString(o.text, ""), "")
	text = strings.TrimRight(strings.TrimLeft(text, "\r\n"), " \t\r\n") // the first line keeps its indentation
	if inside, ok := strings.CutPrefix(text, "```\n"); ok {
		text = strings.TrimSuffix(inside, "\n```")
	}
	if strings.TrimSpace(text) == "" {
		return events.Unknown
	}
	if code, rest, ok := exitCode(text); ok {
		return o.ofExitCode(code, rest)
	}
	if running().MatchString(text) {
		return events.Unknown
	}
	if start := strings.TrimLeft(text, " \t"); strings.ContainsRune(`{["`, rune(start[0])) {
		text = start
		if label, ok := o.ofJSON(text); ok {
			return label
		}
	}
	switch {
	case o.isError(text):
		return events.Failure
	case isDoubtful(text):
		return events.Unknown
	}
	return events.Success
}

// ofExitCode returns the outcome of an exit code; output is the output without it. A search without a match exits with 1, which is not a
// failure.
func (o *toolOutput) ofExitCode(code int, output string) events.Label {
	switch {
	case code == 0:
		return events.Success
	case code == stillRuns, code == 1 && strings.TrimSpace(output) == "" && o.answersByCode():
		return events.Unknown
	}
	return events.Failure
}

// answersByCode reports whether the exit code 1 of the last program is an answer.
func (o *toolOutput) answersByCode() bool {
	n := len(o.programs)
	return n > 0 && answerPrograms[o.programs[n-1]]
}

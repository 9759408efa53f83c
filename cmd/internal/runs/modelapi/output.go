package modelapi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"debrief/events/outcome"
)

// outputText returns the output of a tool as the model sees it: a text, the texts of a list of parts, the only text of an object, or else the JSON of
// the value.
func outputText(v Value) string {
	switch v.Kind() {
	case 'n':
		return ""
	case '"':
		return v.Text()
	case '[':
		var texts []string
		for part := range v.Elements() {
			if text := partText(part); text != "" {
				texts = append(texts, text)
			}
		}
		if len(texts) > 0 || v.Len() == 0 {
			return joinTexts(texts)
		}
	case '{':
		if only := onlyMember(v, "output", "value", "error", "content", "message", "logs", "result"); only.IsSet() {
			return outputText(only)
		}
		if text := partText(v); text != "" && v.HasAny("type") {
			return text
		}
	}
	return string(v.Raw())
}

// describingMembers are the members of an object that only describe its output.
var describingMembers = []string{"type", "code", "param", "is_error", "isError"}

// onlyMember returns the first member of keys that is set, if the other members of the object only describe it. Otherwise it returns a
// missing value.
func onlyMember(v Value, keys ...string) Value {
	only := v.First(keys...)
	for k, member := range v.Members() {
		isOther := member != only // compares positions in the document, not texts
		if isOther && !slices.Contains(describingMembers, k.Text()) {
			return Value{}
		}
	}
	return only
}

// partText returns the text of a part of an output: of a text, of the output of a command, or of a result of a search.
func partText(v Value) string {
	if v.Kind() == '"' {
		return v.Text()
	}
	if inner := v.First("function_response", "functionResponse"); inner.IsSet() { // Gemini
		return outputText(inner.Get("response"))
	}
	if text := v.FirstText("text", "refusal", "logs"); text != "" {
		return text
	}
	var texts []string
	for _, key := range []string{"stdout", "stderr", "title", "url"} {
		if text := v.Text(key); text != "" {
			texts = append(texts, text)
		}
	}
	return joinTexts(texts)
}

// signsOf returns the signs from which package outcome detects a failed call. The signs are in the result or, if the result has no mark for
// or against an error, in its output.
func signsOf(result, output Value) outcome.Signs {
	s := outcome.Signs{Status: result.Text("status"), Error: result.Mark("is_error", "isError", "error", "tool_call_error")}
	if problem := result.Get("error"); problem.Kind() == '{' || problem.Text() != "" {
		s.Error = new(true)
		if problem.Text("type") == "approval" { // of Inspect: a person refused the call
			s = outcome.Signs{Status: "rejected"}
		}
	}
	if s.Error != nil {
		return s
	}
	kind := output.Text("type")
	isErrorType := strings.HasPrefix(kind, "error-") || strings.HasSuffix(kind, "tool_result_error") // Vercel AI SDK, Anthropic
	if isErrorType || onlyMember(output, "error").IsSet() {
		s.Error = new(true)
	}
	addExit(&s, output)
	for part := range output.Elements() { // one part for each command: the first one that failed counts
		if !s.Failed() {
			addExit(&s, part)
		}
	}
	return s
}

// addExit adds the exit code of a command, or its timeout, as the APIs record it in the output of a shell. It changes nothing for another
// output.
func addExit(s *outcome.Signs, v Value) {
	code, end := v.Get("return_code"), v.Get("outcome")
	if end.Text("type") == "timeout" {
		s.Status = "timeout"
		return
	}
	if end.IsSet() {
		code = end.Get("exit_code")
	}
	if n, err := strconv.Atoi(string(code.Raw())); err == nil && v.HasAny("type", "stdout") {
		s.ExitCode = &n
	}
}

// TextOrJSON returns a text as it is, and another value as JSON without spaces. The arguments of a call may be either: a text is JSON, or
// the free text of a custom tool.
func (v Value) TextOrJSON() string {
	if v.Kind() == '"' {
		return v.Text()
	}
	return v.Compact()
}

// Output returns the output of a tool as the model sees it, see outputText.
func (v Value) Output() string { return outputText(v) }

// ToolResult returns the recorded result of a tool, also with the signs that recorders write beside it.
func (v Value) ToolResult() ToolResult {
	var m message
	m.addResult(v)
	r := m.Results[0]
	for _, about := range []Value{v, v.Get("extra"), v.Get("extras"), v.Get("metadata"), v.Get("extras", "metadata")} {
		if code := about.Get("exit_code"); code.Kind() == '0' && r.Signs.ExitCode == nil {
			r.Signs.ExitCode = new(int(code.Number()))
		}
		r.Signs.Error = cmp.Or(r.Signs.Error, about.Mark("is_error", "isError"))
	}
	if v.IsTrue("timeout") {
		r.Signs.Status = "timeout"
	}
	return r
}

package modelapi

import (
	"encoding/json"
	"strings"
)

// outputText returns the output of a tool as the model sees it, and keeps its parts without text for the hash.
func (m *message) outputText(v value) string {
	for part := range v.elements() {
		if part.kind() == '{' && !part.has("text", "refusal", "logs", "stdout", "stderr", "title", "url") {
			m.others = append(m.others, part)
		}
	}
	return outputText(v)
}

// outputText returns the output of a tool: a text, the texts of a list of parts, the only text of an object, or else the JSON of
// the value.
func outputText(v value) string {
	switch v.kind() {
	case 'n':
		return ""
	case '"':
		return v.text()
	case '[':
		var texts []string
		for part := range v.elements() {
			if text := partText(part); text != "" {
				texts = append(texts, text)
			}
		}
		if len(texts) > 0 || !hasElements(v) {
			return joinTexts(texts)
		}
	case '{':
		if only := onlyMember(v, "output", "value", "error", "content", "message", "logs"); only.isSet() {
			return outputText(only)
		}
		if text := partText(v); text != "" && v.has("type") {
			return text
		}
	}
	return string(v.raw())
}

// onlyMember returns the member that has the text of an object, if the others only describe it.
func onlyMember(v value, keys ...string) value {
	only := v.first(keys...)
	for k, member := range v.members() {
		switch k.text() {
		case "type", "code", "param", "is_error", "isError":
		default:
			if member != only {
				return value{}
			}
		}
	}
	return only
}

// partText returns the text of a part of an output: of a text, of the output of a command, or of a result of a search.
func partText(v value) string {
	if v.kind() == '"' {
		return v.text()
	}
	for _, key := range []string{"text", "refusal", "logs"} {
		if text := v.textAt(key); text != "" {
			return text
		}
	}
	var texts []string
	for _, key := range []string{"stdout", "stderr", "title", "url"} {
		if text := v.textAt(key); text != "" {
			texts = append(texts, text)
		}
	}
	return joinTexts(texts)
}

// failedMark returns whether a result is marked as an error, by a member of itself or of its output: a flag, a status, a type or an
// exit code. It returns nil without a mark.
func failedMark(v, output value) *bool {
	switch flag := v.first("is_error", "isError"); flag.kind() {
	case 't':
		return new(true)
	case 'f':
		return new(false)
	}
	switch v.textAt("status") {
	case "error", "failed":
		return new(true)
	}
	if onlyMember(output, "error").isSet() {
		return new(true)
	}
	kind := output.textAt("type")
	if strings.HasPrefix(kind, "error-") || strings.HasSuffix(kind, "tool_result_error") { // Vercel AI SDK, Anthropic
		return new(true)
	}
	mark := exitMark(output)
	for part := range output.elements() {
		if next := exitMark(part); next != nil && (mark == nil || *next) {
			mark = next
		}
	}
	return mark
}

// exitMark returns whether the output of a command ended with an error, or nil if it has no exit code.
func exitMark(v value) *bool {
	code := v.get("return_code")
	if outcome := v.get("outcome"); outcome.textAt("type") == "timeout" {
		return new(true)
	} else if outcome.isSet() {
		code = outcome.get("exit_code")
	}
	if !v.has("type", "stdout") || code.kind() != '0' {
		return nil
	}
	return new(string(code.raw()) != "0")
}

// ArgumentText returns the arguments of a call as JSON text without spaces. It decodes arguments in a string.
func ArgumentText(raw json.RawMessage) string {
	v := parseValue(raw)
	if v.isMissing() {
		return string(raw)
	}
	return argumentText(v)
}

// OutputText returns the output of a tool as text: a string, the texts of a list of parts, the only text of an object, or else the
// JSON of the value.
func OutputText(raw json.RawMessage) string {
	v := parseValue(raw)
	if v.isMissing() {
		return string(raw)
	}
	return outputText(v)
}

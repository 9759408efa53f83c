package runs

import (
	"cmp"
	"fmt"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
)

// langfuseTrace parses a trace with its observations: {"trace", "observations"}, or a trace of the API, which has the field
// observations itself.
func langfuseTrace(v *record) ([]*steps.Run, error) {
	about := v.Value
	if inner := v.Get("trace"); inner.Kind() == '{' {
		about = inner
	}
	t := &recordedTrace{name: about.Text("id"), session: about.Text("sessionId"), user: about.Text("userId")}
	t.question = lastText(about.Get("input").Messages("user"), "user")
	t.answer = lastText(about.Get("output").Messages("assistant"), "assistant")
	for s := range about.Get("scores").Elements() {
		if s.Text("observationId") != "" {
			continue
		}
		value := s.First("value", "stringValue")
		if s.Text("dataType") == "CATEGORICAL" {
			value = s.First("stringValue", "value")
		}
		t.addScore(&score{name: s.Text("name"), value: value, comment: s.Text("comment"), source: sourceLangfuse, leadingScore: v.leadingScore})
	}
	for span := range v.Want('[', "observations").Elements() {
		if span.Kind() != '{' {
			span.Note("", "want an object")
		}
		t.all = append(t.all, langfuseObservation(span, len(t.all)))
	}
	return t.End()
}

// lastText returns the text of the last message of a role, or "".
func lastText(items []modelapi.Item, role modelapi.Role) (text string) {
	for i := range items {
		if items[i].Role == role {
			text = cmp.Or(items[i].Text, text)
		}
	}
	return text
}

// langfuseObservation parses an observation. An observation without an id gets one from index.
func langfuseObservation(v modelapi.Value, index int) observation {
	// An observation that was made of an OpenTelemetry span has the attributes of the span in its metadata.
	span := otelSpan{name: v.Text("name"), attributes: parseAttributes(v.Get("metadata").Parsed().Get("attributes").Parsed())}
	out := observation{
		id: cmp.Or(v.Text("id"), fmt.Sprintf("observation-%d", index)), parent: v.Text("parentObservationId"), model: v.Text("model"),
		start: v.Time("startTime"), end: v.Time("endTime"), failed: v.Text("level") == "ERROR",
	}
	out.kind = kinds[strings.ToLower(v.Text("type"))]
	if out.kind == otherSpan { // some integrations set only the attributes
		out.kind = otelKind(&span)
	}
	if out.kind == otherSpan && v.Get("output").Text("tool_call_id") != "" { // LangChain writes the message of the tool
		out.kind = toolSpan
	}
	switch out.kind {
	case modelCall:
		out.input, out.output = langfuseMessages(v, &span)
		out.usage = steps.Usage(1, v.First("usageDetails", "usage"), v.Number("totalCost"))
	case toolSpan:
		out.tool, out.result = span.toolCall()
		if input := v.Get("input"); input.IsSet() {
			out.tool.Arguments = langfuseArguments(input)
		}
		if output := v.Get("output"); output.IsSet() {
			id := ""
			id, out.result = toolResult(output)
			out.tool.ID = cmp.Or(out.tool.ID, id)
		}
	}
	if out.failed {
		out.result = cmp.Or(out.result, v.Text("statusMessage"))
	}
	return out
}

// langfuseMessages returns the messages of a model call. They are in the observation, in the attributes of its span, or in both. Of two
// prompts the one with more messages is used, and of two responses that of the observation.
func langfuseMessages(v modelapi.Value, span *otelSpan) (input, output []modelapi.Item) {
	input, output = v.Get("input").Messages("user"), v.Get("output").Messages("assistant")
	isMissing := v.Kind("input") == '"' && v.Text("output") == "None" // a Python recorder that writes texts wrote None for a missing one
	if isMissing {
		output = nil
	}
	if ofSpan := span.inputs(); len(input) == 0 || len(ofSpan) > len(input) {
		input = ofSpan
	}
	if len(output) == 0 {
		output = span.outputs()
	}
	return input, output
}

// langfuseArguments returns the arguments of a tool. Some integrations wrap them in an object with the field input.
func langfuseArguments(v modelapi.Value) string {
	text := v.TextOrJSON()
	inner := modelapi.ParseValue([]byte(text))
	if wrapped := inner.Get("input"); wrapped.Kind() == '{' && isOnlyMember(inner, "input") {
		return string(wrapped.Raw())
	}
	return text
}

// langfuseSpans builds a trace from exported observations, one per line.
type langfuseSpans struct{ recordedTrace }

// Add adds a span.
func (l *langfuseSpans) Add(v modelapi.Value, _ string) {
	l.name = v.Text("traceId")
	l.session, l.user = cmp.Or(l.session, v.Text("sessionId")), cmp.Or(l.user, v.Text("userId"))
	l.all = append(l.all, langfuseObservation(v, len(l.all)))
}

package spans

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
)

// LangfuseTrace parses a trace with its observations: {"trace", "observations"}, or a trace of the API, which has the field
// observations itself.
func LangfuseTrace(o *source.Object) ([]*steps.Run, error) {
	about, list := o, source.AsList(o.Get("observations"))
	if t := o.Child("trace"); t != nil {
		about = t
	}
	t := langfuseAbout(about)
	for i, raw := range list {
		span := source.AsObject(raw)
		if span == nil {
			return nil, errors.New("field observations: want a list of objects")
		}
		t.all = append(t.all, langfuseObservation(span, i))
	}
	return t.runs()
}

// langfuseAbout parses the fields of a trace.
func langfuseAbout(o *source.Object) *recordedTrace {
	t := &recordedTrace{name: o.Text("id"), session: o.Text("sessionId"), omitted: source.Omissions{}}
	t.question, t.answer = lastText(modelapi.Find(o.Get("input"), "user"), "user"), lastText(modelapi.Find(o.Get("output"), "assistant"), "assistant")
	for _, raw := range source.AsList(o.Get("scores")) {
		s := source.AsObject(raw)
		if s == nil || s.Text("observationId") != "" {
			continue
		}
		value := s.First("value", "stringValue")
		if s.Text("dataType") == "CATEGORICAL" {
			value = s.First("stringValue", "value")
		}
		if o, ok := scoreOutcome(s.Text("name"), value, s.Text("comment"), SourceLangfuse); ok && !t.outcome.Known() {
			t.outcome = o
		} else {
			t.omitted.Add(source.OtherScores, 1)
		}
	}
	return t
}

// scoreOutcome returns the outcome of a named score. It returns false if the score does not measure correctness.
func scoreOutcome(name string, value json.RawMessage, feedback, by string) (events.Outcome, bool) {
	if !outcome.Leads(name) {
		return events.Outcome{}, false
	}
	o, err := outcome.Parse(string(value))
	if err != nil || !o.Known() {
		return events.Outcome{}, false
	}
	o.By, o.Feedback = by+":"+name, feedback
	return o, true
}

// lastText returns the text of the last message of a role, or "".
func lastText(turns []modelapi.Item, role modelapi.Role) string {
	for _, t := range slices.Backward(turns) {
		if t.Role == role && t.Text != "" {
			return t.Text
		}
	}
	return ""
}

// langfuseObservation parses an observation. Index names an observation without an id.
func langfuseObservation(o *source.Object, index int) observation {
	out := observation{
		id: o.Text("id"), parent: o.Text("parentObservationId"), name: o.Text("name"), model: o.Text("model"),
		start: steps.ParseTime(o.Get("startTime")), end: steps.ParseTime(o.Get("endTime")), failed: o.Text("level") == "ERROR", omitted: source.Omissions{},
	}
	out.id = cmp.Or(out.id, fmt.Sprintf("observation-%d", index))
	a, kind := langfuseAttributes(o), o.Text("type")
	if kind == "SPAN" && otelKind(&otelSpan{attributes: a}) == toolSpan { // of an integration that sets only the attributes
		kind = "TOOL"
	}
	switch kind {
	case "GENERATION":
		out.kind = modelCall
		out.input, out.output = modelapi.Find(o.Get("input"), "user"), modelapi.Find(o.Get("output"), "assistant")
		out.usage = langfuseUsage(o)
	case "TOOL":
		out.kind = toolSpan
		var id string
		id, out.result = toolResult(o.Get("output"))
		out.tool = modelapi.ToolCall{
			ID:        cmp.Or(a.toolCallID(), id),
			Name:      a.toolName(o.Text("name")),
			Arguments: langfuseArguments(o.Get("input")),
		}
	case "AGENT":
		out.kind = agentSpan
	}
	if status := o.Text("statusMessage"); out.failed && out.result == "" {
		out.result = status
	}
	return out
}

// langfuseAttributes returns the attributes of the OpenTelemetry span from which an observation was made. Langfuse stores them in the
// metadata, as an object or as JSON in a text.
func langfuseAttributes(o *source.Object) attributes {
	metadata := source.AsObject(json.RawMessage(modelapi.ArgumentText(o.Get("metadata"))))
	if metadata == nil {
		return nil
	}
	return parseAttributes(json.RawMessage(modelapi.ArgumentText(metadata.Get("attributes"))))
}

// toolResult returns the output of a tool span, and the id of its call if the output is the message of the tool.
func toolResult(output json.RawMessage) (callID, text string) {
	for _, t := range modelapi.Find(output, "") {
		if len(t.Results) == 1 && t.Results[0].CallID != "" {
			return t.Results[0].CallID, t.Results[0].Output
		}
	}
	return "", toolText(output)
}

// langfuseArguments returns the arguments of a tool. Some integrations wrap them in an object with the field input.
func langfuseArguments(raw json.RawMessage) string {
	text := modelapi.ArgumentText(raw)
	if o := source.AsObject(json.RawMessage(text)); o != nil && len(o.Fields) == 1 && o.Kind("input") == '{' {
		return string(o.Get("input"))
	}
	return text
}

// toolText returns the output of a tool. Langfuse stores objects as JSON text.
func toolText(raw json.RawMessage) string {
	text := modelapi.OutputText(raw)
	if o := source.AsObject(json.RawMessage(text)); o != nil {
		return modelapi.OutputText(o.Raw)
	}
	return text
}

// langfuseUsage returns the tokens of a model call, from the fields of the current or of an older version.
func langfuseUsage(o *source.Object) chat.Usage {
	var u struct {
		Details map[string]json.RawMessage `json:"usageDetails"`
		Cost    float64                    `json:"totalCost"`
		Usage   struct {
			Input            float64 `json:"input"`
			Output           float64 `json:"output"`
			PromptTokens     float64 `json:"promptTokens"`
			CompletionTokens float64 `json:"completionTokens"`
		} `json:"usage"`
	}
	_ = json.Unmarshal(o.Raw, &u) // a field of another type is zero
	var in, out float64
	_ = json.Unmarshal(u.Details["input"], &in)
	_ = json.Unmarshal(u.Details["output"], &out)
	return chat.Usage{
		Calls: 1, InputTokens: steps.ValidCount(cmp.Or(in, u.Usage.Input, u.Usage.PromptTokens)),
		OutputTokens: steps.ValidCount(cmp.Or(out, u.Usage.Output, u.Usage.CompletionTokens)), Cost: steps.ValidCost(u.Cost),
	}
}

// LangfuseSpans builds a trace from exported observations, one per line.
type LangfuseSpans struct{ trace recordedTrace }

// Add adds a span. An error skips only this span.
func (l *LangfuseSpans) Add(o *source.Object) error {
	l.trace.name = o.Text("traceId")
	l.trace.session = cmp.Or(l.trace.session, o.Text("sessionId"))
	l.trace.all = append(l.trace.all, langfuseObservation(o, len(l.trace.all)))
	return nil
}

// End returns the runs of the trace.
func (l *LangfuseSpans) End() ([]*steps.Run, error) { return l.trace.runs() }

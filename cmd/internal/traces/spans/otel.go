package spans

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
)

// otelSpan is a span in any of its forms: OTLP in JSON, or as the SDKs for JavaScript and Python print it.
type otelSpan struct {
	trace, id, parent, name string
	start, end              time.Time
	failed                  bool
	status                  string
	attributes              attributes
	events                  []otelEvent
}

type otelEvent struct {
	name       string
	attributes attributes
}

// attributes are the attributes of a span as JSON.
type attributes map[string]json.RawMessage

// text returns the first of the attributes that has a text.
func (a attributes) text(names ...string) string {
	for _, name := range names {
		if v := a[name]; v != nil {
			if s := modelapi.ArgumentText(v); s != "" {
				return s
			}
		}
	}
	return ""
}

// first returns the first of the attributes that is present, or nil.
func (a attributes) first(names ...string) json.RawMessage {
	for _, name := range names {
		if v := a[name]; v != nil {
			return v
		}
	}
	return nil
}

// count returns the first of the attributes that is a positive number. OTLP writes integers as text.
func (a attributes) count(names ...string) int {
	for _, name := range names {
		if n, err := strconv.ParseFloat(a.text(name), 64); err == nil && n > 0 {
			return steps.ValidCount(n)
		}
	}
	return 0
}

// IsOTLP reports whether an object has spans of OTLP: the whole export, or one resource of it.
func IsOTLP(o *source.Object) bool {
	for _, name := range []string{"resourceSpans", "scopeSpans", "instrumentationLibrarySpans"} {
		if o.Kind(name) == '[' {
			return true
		}
	}
	return false
}

// SplitOTLP returns the spans of an export.
func SplitOTLP(o *source.Object) (spans [][]byte, err error) {
	for _, raw := range source.AsList(o.First("resourceSpans", "scopeSpans", "instrumentationLibrarySpans")) {
		inner := source.AsObject(raw)
		if inner == nil {
			return nil, errors.New("field resourceSpans: want a list of objects")
		}
		if IsOTLP(inner) {
			more, err := SplitOTLP(inner)
			if err != nil {
				return nil, err
			}
			spans = append(spans, more...)
			continue
		}
		for _, span := range source.AsList(inner.Get("spans")) {
			spans = append(spans, span)
		}
	}
	return spans, nil
}

// OTelTraceID returns the id of the trace of a span, or "".
func OTelTraceID(o *source.Object) string {
	for _, name := range []string{"spanContext", "context"} {
		if c := o.Child(name); c != nil {
			return cmp.Or(c.Text("traceId"), c.Text("trace_id"))
		}
	}
	if o.Has("spanId") || o.Has("span_id") {
		return cmp.Or(o.Text("traceId"), o.Text("trace_id"))
	}
	return ""
}

// IsAttributes reports whether an object has the attributes of a model call as its fields.
func IsAttributes(o *source.Object) bool {
	return o.HasAny("gen_ai.operation.name", "openinference.span.kind", "gen_ai.input.messages", "gen_ai.request.model", "llm.model_name")
}

// OTelAttributes parses the attributes of a single span.
func OTelAttributes(o *source.Object) ([]*steps.Run, error) {
	s := otelSpan{id: "span", attributes: attributes{}}
	for _, f := range o.Fields {
		s.attributes[f.Name] = f.Value
	}
	t := &recordedTrace{omitted: source.Omissions{}, all: []observation{s.observation()}}
	t.all[0].kind = modelCall
	return t.runs()
}

// OTelTrace builds a trace from its spans.
type OTelTrace struct{ trace recordedTrace }

// Add adds a span. An error skips only this span.
func (t *OTelTrace) Add(o *source.Object) error {
	s := parseSpan(o)
	t.trace.name = s.trace
	t.trace.all = append(t.trace.all, s.observation())
	return nil
}

// End returns the runs of the trace.
func (t *OTelTrace) End() ([]*steps.Run, error) { return t.trace.runs() }

// parseSpan parses a span in any form.
func parseSpan(o *source.Object) otelSpan {
	s := otelSpan{
		trace: OTelTraceID(o), id: cmp.Or(o.Text("spanId"), o.Text("span_id")), name: o.Text("name"),
		parent: cmp.Or(o.Text("parentSpanId"), o.Text("parent_id"), o.Text("parent_span_id")),
		start:  otelTime(o.First("startTimeUnixNano", "startTime", "start_time")), end: otelTime(o.First("endTimeUnixNano", "endTime", "end_time")),
		attributes: parseAttributes(o.Get("attributes")),
	}
	for _, name := range []string{"spanContext", "context"} {
		if c := o.Child(name); c != nil {
			s.id = cmp.Or(c.Text("spanId"), c.Text("span_id"))
		}
	}
	if p := o.Child("parentSpanContext"); p != nil {
		s.parent = p.Text("spanId")
	}
	if status := o.Child("status"); status != nil {
		code := strings.Trim(string(status.First("code", "status_code")), `"`)
		s.failed = code == "2" || strings.HasSuffix(code, "ERROR")
		s.status = cmp.Or(status.Text("message"), status.Text("description"))
	}
	s.failed = s.failed || s.attributes.text("error.type") != ""
	for _, raw := range source.AsList(o.Get("events")) {
		if e := source.AsObject(raw); e != nil {
			s.events = append(s.events, otelEvent{e.Text("name"), parseAttributes(e.Get("attributes"))})
		}
	}
	return s
}

// parseAttributes parses attributes: an object, or the list of keys and values of OTLP.
func parseAttributes(raw json.RawMessage) attributes {
	a := attributes{}
	if o := source.AsObject(raw); o != nil {
		for _, f := range o.Fields {
			a[f.Name] = f.Value
		}
		return a
	}
	for _, raw := range source.AsList(raw) {
		if pair := source.AsObject(raw); pair != nil {
			a[pair.Text("key")] = otlpValue(pair.Child("value"), 0)
		}
	}
	return a
}

// otlpValue converts a value of OTLP, such as {"stringValue": "x"}, to JSON.
func otlpValue(o *source.Object, depth int) json.RawMessage {
	if o == nil || len(o.Fields) == 0 || depth > modelapi.MaxNesting {
		return nil
	}
	inner := source.AsObject(o.Fields[0].Value)
	switch {
	case o.Has("arrayValue") && inner != nil:
		return otlpList(inner, depth)
	case o.Has("kvlistValue") && inner != nil:
		values := map[string]json.RawMessage{}
		for _, raw := range source.AsList(inner.Get("values")) {
			if pair := source.AsObject(raw); pair != nil {
				values[pair.Text("key")] = otlpValue(pair.Child("value"), depth+1)
			}
		}
		out, err := json.Marshal(values)
		if err != nil {
			return nil
		}
		return out
	}
	return o.Fields[0].Value
}

func otlpList(inner *source.Object, depth int) json.RawMessage {
	values := []json.RawMessage{}
	for _, raw := range source.AsList(inner.Get("values")) {
		values = append(values, otlpValue(source.AsObject(raw), depth+1))
	}
	out, err := json.Marshal(values)
	if err != nil {
		return nil
	}
	return out
}

// otelTime parses nanoseconds since 1970, [seconds, nanoseconds], or RFC 3339. An invalid time is zero.
func otelTime(raw json.RawMessage) time.Time {
	var pair []int64
	if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 {
		return time.Unix(pair[0], pair[1]).UTC()
	}
	if n, err := strconv.ParseInt(modelapi.ArgumentText(raw), 10, 64); err == nil {
		return time.Unix(0, n).UTC()
	}
	return steps.ParseTime(raw)
}

// observation converts a span.
func (s *otelSpan) observation() observation {
	a := s.attributes
	o := observation{
		id: s.id, parent: s.parent, name: s.name, start: s.start, end: s.end, failed: s.failed, kind: otelKind(s), omitted: source.Omissions{},
		session: a.text("gen_ai.conversation.id", "session.id"), model: a.text("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.response.model", "ai.model.id"),
	}
	switch o.kind {
	case modelCall:
		o.input, o.output = s.inputs(), s.outputs()
		o.usage = chat.Usage{
			Calls:        1,
			InputTokens:  a.count("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.promptTokens", "ai.usage.inputTokens"),
			OutputTokens: a.count("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion", "ai.usage.completionTokens", "ai.usage.outputTokens"),
		}
	case toolSpan:
		var id string
		id, o.result = toolResult(a.first("gen_ai.tool.call.result", "ai.toolCall.result", "ai.toolCall.output", "output.value", "traceloop.entity.output"))
		o.tool = modelapi.ToolCall{
			ID:        cmp.Or(a.toolCallID(), id),
			Name:      a.toolName(s.name),
			Arguments: a.text("gen_ai.tool.call.arguments", "ai.toolCall.args", "ai.toolCall.input", "input.value", "tool.parameters", "traceloop.entity.input"),
		}
		if s.failed {
			o.result = cmp.Or(o.result, s.status, a.text("exception.message", "error.type"))
		}
	}
	for _, e := range s.events {
		if e.name != "gen_ai.evaluation.result" {
			continue
		}
		score := e.attributes.first("gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label")
		outcome, ok := scoreOutcome(e.attributes.text("gen_ai.evaluation.name"), score, e.attributes.text("gen_ai.evaluation.explanation"), SourceOTel)
		if ok && o.outcome == (events.Outcome{}) {
			o.outcome = outcome
		} else {
			o.omitted.Add(source.OtherScores, 1)
		}
	}
	return o
}

// toolCallID returns the id of the call of a tool span, or "".
func (a attributes) toolCallID() string {
	return a.text("gen_ai.tool.call.id", "ai.toolCall.id", "ai.toolCall.toolCallId", "tool_call.id", "tool_call_id")
}

// toolSpanPrefixes begin the names of tool spans, before the name of the tool.
var toolSpanPrefixes = []string{"execute_tool ", "running tool: ", "running tool "}

// toolName returns the name of the tool of a span: the attribute, else the name of the span without the words of its recorder.
func (a attributes) toolName(span string) string {
	for _, prefix := range toolSpanPrefixes {
		span = strings.TrimPrefix(span, prefix)
	}
	return cmp.Or(a.text("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name"), span, "unknown")
}

// otelKind returns the kind of a span from the attributes of the GenAI conventions, OpenInference, the Vercel AI SDK or
// OpenLLMetry.
func otelKind(s *otelSpan) observationKind {
	a := s.attributes
	operation := a.text("ai.operationId")
	for _, kind := range []string{
		a.text("gen_ai.operation.name"), a.text("openinference.span.kind"), a.text("traceloop.span.kind"), a.text("llm.request.type"),
	} {
		switch strings.ToLower(kind) {
		case "chat", "text_completion", "generate_content", "completion", "llm":
			return modelCall
		case "execute_tool", "tool":
			return toolSpan
		case "invoke_agent", "create_agent", "agent":
			return agentSpan
		}
	}
	switch {
	case operation == "ai.toolCall":
		return toolSpan
	case strings.HasPrefix(operation, "ai.generate"), strings.HasPrefix(operation, "ai.stream"):
		return modelCall
	}
	return otherSpan
}

// inputs returns the messages of the prompt.
func (s *otelSpan) inputs() []modelapi.Item {
	a := s.attributes
	var turns []modelapi.Item
	if system := a["gen_ai.system_instructions"]; system != nil {
		turns = modelapi.Find(system, "system")
	}
	for _, e := range s.events {
		if role, ok := strings.CutSuffix(strings.TrimPrefix(e.name, "gen_ai."), ".message"); ok && modelapi.RoleOf(role) != "" {
			turns = append(turns, e.message(role)...)
		}
		if v := e.attributes["gen_ai.input.messages"]; v != nil {
			turns = append(turns, modelapi.Find(v, "user")...)
		}
	}
	if prompt := a.first("gen_ai.input.messages", "ai.prompt.messages", "ai.prompt"); prompt != nil {
		return append(turns, modelapi.Find(prompt, "user")...)
	}
	for _, prefix := range []string{"llm.input_messages.", "gen_ai.prompt."} {
		if list := a.list(prefix); list != nil {
			return append(turns, modelapi.Find(list, "user")...)
		}
	}
	if len(turns) > 0 {
		return turns
	}
	return modelapi.Find(a.first("input.value", "input"), "user")
}

// outputs returns the messages of the response.
func (s *otelSpan) outputs() []modelapi.Item {
	a := s.attributes
	for _, e := range s.events {
		if e.name == "gen_ai.choice" {
			return e.message("assistant")
		}
		if v := e.attributes["gen_ai.output.messages"]; v != nil {
			return modelapi.Find(v, "assistant")
		}
	}
	if output := a["gen_ai.output.messages"]; output != nil {
		return modelapi.Find(output, "assistant")
	}
	for _, prefix := range []string{"llm.output_messages.", "gen_ai.completion."} {
		if list := a.list(prefix); list != nil {
			return modelapi.Find(list, "assistant")
		}
	}
	if text, calls := a.text("ai.response.text", "ai.response.object"), a["ai.response.toolCalls"]; text != "" || calls != nil {
		t := modelapi.Item{Role: "assistant", Text: text}
		for _, more := range modelapi.Find(calls, "") {
			t.Calls = append(t.Calls, more.Calls...)
		}
		return []modelapi.Item{t}
	}
	return modelapi.Find(a.first("output.value", "output"), "assistant")
}

// message returns the message in an event.
func (e *otelEvent) message(role string) []modelapi.Item {
	members := map[string]json.RawMessage{"role": json.RawMessage(strconv.Quote(role))}
	for name, value := range e.attributes {
		if text := json.RawMessage(modelapi.ArgumentText(value)); name == "message" || name == "tool_calls" {
			value = text // JSON in a text
		}
		members[name] = value
	}
	if inner := source.AsObject(members["message"]); inner != nil {
		for _, f := range inner.Fields {
			members[f.Name] = f.Value
		}
		delete(members, "message")
	}
	if id := members["id"]; id != nil && role == "tool" {
		members["tool_call_id"] = id
	}
	raw, err := json.Marshal(members)
	if err != nil { // an attribute is not valid JSON
		return nil
	}
	return modelapi.Find(raw, modelapi.RoleOf(role))
}

// list returns the attributes with a prefix as a list: "llm.input_messages.0.message.role" is the field role of the first
// element. It returns nil without such attributes.
func (a attributes) list(prefix string) json.RawMessage {
	root := map[string]any{}
	for name, value := range a {
		path, ok := strings.CutPrefix(name, prefix)
		if !ok || strings.Count(path, ".") > 12 {
			continue
		}
		at := root
		parts := strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			next, ok := at[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[part] = next
			}
			at = next
		}
		if last := parts[len(parts)-1]; at[last] == nil {
			at[last] = value
		}
	}
	if len(root) == 0 {
		return nil
	}
	raw, err := json.Marshal(nested(root))
	if err != nil {
		return nil
	}
	return raw
}

// nested converts maps with numbers as keys to lists, and removes the wrappers of OpenInference.
func nested(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if len(m) == 1 {
		for _, wrapper := range []string{"message", "message_content", "tool_call"} {
			if inner, ok := m[wrapper]; ok {
				return nested(inner)
			}
		}
	}
	if _, ok := m["0"]; ok {
		var list []any
		for i := 0; ; i++ {
			element, ok := m[strconv.Itoa(i)]
			if !ok {
				return list
			}
			list = append(list, nested(element))
		}
	}
	for name, value := range m {
		m[name] = nested(value)
	}
	if contents, ok := m["contents"]; ok && m["content"] == nil {
		m["content"] = contents
		delete(m, "contents")
	}
	return m
}

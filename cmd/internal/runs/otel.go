package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events/chat"
)

// otelSpan is a span in any of its forms: OTLP in JSON, or as the SDKs for JavaScript and Python print it.
type otelSpan struct {
	name       string
	status     string // the message of the status, which may have the error
	failed     bool
	attributes attributes
	events     []otelEvent
}

// otelEvent is an event of a span.
type otelEvent struct {
	name       string
	attributes attributes
}

// attributes are the attributes of a span.
type attributes map[string]modelapi.Value

// text returns the first of the attributes that has a text, or "". A value that is no text is returned as JSON.
func (a attributes) text(names ...string) string {
	for _, name := range names {
		if s := a[name].TextOrJSON(); s != "" {
			return s
		}
	}
	return ""
}

// first returns the first of the attributes that is set, or a missing value.
func (a attributes) first(names ...string) modelapi.Value {
	for _, name := range names {
		if a[name].IsSet() {
			return a[name]
		}
	}
	return modelapi.Value{}
}

// count returns the first of the attributes that is a positive number, or 0. OTLP writes integers as text.
func (a attributes) count(names ...string) int {
	for _, name := range names {
		if n := a[name].Number(); n > 0 && n < math.MaxInt32 {
			return int(n)
		}
	}
	return 0
}

// isOnlyMember reports whether an object has a member with the name, and no other member.
func isOnlyMember(v modelapi.Value, name string) bool {
	n := 0
	for range v.Members() {
		n++
	}
	return n == 1 && v.Get(name).IsSet()
}

// otlpLists are the names of the lists around spans, from the outside to the inside.
var otlpLists = []string{"resourceSpans", "scopeSpans", "instrumentationLibrarySpans"}

// isOTLP reports whether an object has spans of OTLP: the whole export, or one resource of it.
func isOTLP(v modelapi.Value) bool {
	return slices.ContainsFunc(otlpLists, func(name string) bool { return v.Kind(name) == '[' })
}

// splitOTLP returns the spans of an export.
func splitOTLP(v modelapi.Value) (spans [][]byte, err error) {
	for inner := range v.First(otlpLists...).Elements() {
		if inner.Kind() != '{' {
			return nil, errors.New("field resourceSpans: want a list of objects")
		}
		if isOTLP(inner) {
			more, err := splitOTLP(inner)
			if err != nil {
				return nil, err
			}
			spans = append(spans, more...)
			continue
		}
		for span := range inner.Get("spans").Elements() {
			spans = append(spans, span.Raw())
		}
	}
	return spans, nil
}

// otelTraceID returns the id of the trace of a span, or "".
func otelTraceID(v modelapi.Value) string {
	if c := v.First("spanContext", "context"); c.Kind() == '{' {
		return cmp.Or(c.Text("traceId"), c.Text("trace_id"))
	}
	if v.HasAny("spanId", "span_id") {
		return cmp.Or(v.Text("traceId"), v.Text("trace_id"))
	}
	return ""
}

// isAttributes reports whether an object has the attributes of a model call as its fields.
func isAttributes(v modelapi.Value) bool {
	return v.HasAny("gen_ai.operation.name", "openinference.span.kind", "gen_ai.input.messages", "gen_ai.request.model", "llm.model_name")
}

// otelAttributes parses the attributes of a single span.
func otelAttributes(v *record) ([]*steps.Run, error) {
	o := observation{id: "span", kind: modelCall}
	s := otelSpan{attributes: parseAttributes(v.Value)}
	s.fill(&o, v.leadingScore)
	return (&recordedTrace{all: []observation{o}}).End()
}

// OTelTrace builds a trace from its spans.
type OTelTrace struct{ recordedTrace }

// Add adds a span. leadingScore is the name of the score that counts, see outcome.Leads.
func (t *OTelTrace) Add(v modelapi.Value, leadingScore string) {
	c := v.First("spanContext", "context")
	s := otelSpan{
		name: v.Text("name"), attributes: parseAttributes(v.Get("attributes")),
		status: cmp.Or(v.Text("status", "message"), v.Text("status", "description")),
	}
	code := strings.Trim(string(v.Get("status").First("code", "status_code").Raw()), `"`)
	isError := code == "2" || strings.HasSuffix(code, "ERROR") // the number in OTLP, or the name in the output of an SDK
	s.failed = isError || s.attributes.text("error.type") != ""
	for e := range v.Get("events").Elements() {
		s.events = append(s.events, otelEvent{e.Text("name"), parseAttributes(e.Get("attributes"))})
	}
	o := observation{
		id:     cmp.Or(c.Text("spanId"), c.Text("span_id"), v.Text("spanId"), v.Text("span_id")),
		parent: cmp.Or(v.Text("parentSpanContext", "spanId"), v.Text("parentSpanId"), v.Text("parent_id"), v.Text("parent_span_id")),
		start:  v.First("startTimeUnixNano", "startTime", "start_time").Time(),
		end:    v.First("endTimeUnixNano", "endTime", "end_time").Time(),
		kind:   otelKind(&s),
	}
	s.fill(&o, leadingScore)
	t.name = otelTraceID(v)
	t.all = append(t.all, o)
}

// parseAttributes parses attributes: an object, or the list of keys and values of OTLP.
func parseAttributes(v modelapi.Value) attributes {
	a := attributes{}
	for name, value := range v.Members() {
		a[name.Text()] = value
	}
	for pair := range v.Elements() {
		a[pair.Text("key")] = otlpValue(pair.Get("value"))
	}
	return a
}

// otlpValue returns the value of an attribute of OTLP, such as {"stringValue": "x"}.
func otlpValue(v modelapi.Value) modelapi.Value {
	if v.HasAny("arrayValue", "kvlistValue") {
		raw, err := json.Marshal(otlpAny(v, 0))
		if err != nil {
			return modelapi.Value{}
		}
		return modelapi.ParseValue(raw)
	}
	for _, value := range v.Members() {
		return value
	}
	return modelapi.Value{}
}

// otlpAny returns the value of an attribute of OTLP in a form for json.Marshal. It returns nil for a value that is nested too deep.
func otlpAny(v modelapi.Value, depth int) any {
	if depth > modelapi.MaxNesting {
		return nil
	}
	switch {
	case v.HasAny("arrayValue"):
		list := []any{}
		for e := range v.Get("arrayValue", "values").Elements() {
			list = append(list, otlpAny(e, depth+1))
		}
		return list
	case v.HasAny("kvlistValue"):
		object := map[string]any{}
		for pair := range v.Get("kvlistValue", "values").Elements() {
			object[pair.Text("key")] = otlpAny(pair.Get("value"), depth+1)
		}
		return object
	}
	return json.RawMessage(cmp.Or(string(otlpValue(v).Raw()), "null"))
}

// SessionAttributes and UserAttributes are the attributes with the session and the user of a span, in the order in which they count.
var (
	SessionAttributes = []string{"gen_ai.conversation.id", "session.id", "langfuse.session.id", "traceloop.association.properties.session_id", "ai.telemetry.metadata.sessionId"}
	UserAttributes    = []string{"user.id", "enduser.id", "langfuse.user.id", "traceloop.association.properties.user_id", "ai.telemetry.metadata.userId"}
)

// fill sets the fields of an observation from the attributes and events of its span.
func (s *otelSpan) fill(o *observation, leadingScore string) {
	a := s.attributes
	o.failed = s.failed
	o.session, o.user = a.text(SessionAttributes...), a.text(UserAttributes...)
	o.model = a.text("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.response.model", "ai.model.id")
	switch o.kind {
	case modelCall:
		o.input, o.output = s.inputs(), s.outputs()
		o.usage = chat.Usage{
			Calls: 1,
			InputTokens: a.count("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
				"ai.usage.promptTokens", "ai.usage.inputTokens"),
			OutputTokens: a.count("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
				"ai.usage.completionTokens", "ai.usage.outputTokens"),
		}
	case toolSpan:
		o.tool, o.result = s.toolCall()
		if s.failed {
			o.result = cmp.Or(o.result, s.status, a.text("exception.message", "error.type"))
		}
	case agentSpan:
		o.input, o.output = s.inputs(), s.outputs()
	}
	s.addAnnotations(o, leadingScore)
	for _, e := range s.events {
		if e.name != "gen_ai.evaluation.result" {
			continue
		}
		o.addScore(&score{
			name:         e.attributes.text("gen_ai.evaluation.name"),
			value:        e.attributes.first("gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"),
			comment:      e.attributes.text("gen_ai.evaluation.explanation"),
			source:       sourceOTel,
			leadingScore: leadingScore,
		})
	}
}

// annotators are the kinds of annotations of OpenInference, the most reliable first.
var annotators = []string{"HUMAN", "CODE", "LLM", ""}

// addAnnotations adds the annotations of OpenInference. The first score that counts decides.
func (s *otelSpan) addAnnotations(o *observation, leadingScore string) {
	for _, kind := range annotators {
		for e := range s.attributes.list("annotations.").Elements() {
			if a := e.Get("annotation"); a.Text("annotator_kind") == kind {
				o.addScore(&score{name: a.Text("name"), value: a.First("score", "label"), comment: a.Text("explanation"), source: sourceOTel, leadingScore: leadingScore})
			}
		}
	}
}

// toolSpanPrefixes are in the names of tool spans before the name of the tool.
var toolSpanPrefixes = []string{"execute_tool ", "running tool: ", "running tool "}

// toolCall returns the call and the result of a tool span. If no attribute names the tool, its name is that of the span without
// toolSpanPrefixes.
func (s *otelSpan) toolCall() (modelapi.ToolCall, string) {
	a, name := s.attributes, s.name
	for _, prefix := range toolSpanPrefixes {
		name = strings.TrimPrefix(name, prefix)
	}
	id, result := toolResult(a.first("gen_ai.tool.call.result", "ai.toolCall.result", "ai.toolCall.output", "output.value", "traceloop.entity.output"))
	return modelapi.ToolCall{
		ID:        cmp.Or(a.text("gen_ai.tool.call.id", "ai.toolCall.id", "ai.toolCall.toolCallId", "tool_call.id", "tool_call_id"), id),
		Name:      cmp.Or(a.text("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name"), name, "unknown"),
		Arguments: a.text("gen_ai.tool.call.arguments", "ai.toolCall.args", "ai.toolCall.input", "input.value", "tool.parameters", "traceloop.entity.input"),
	}, result
}

// toolResult returns the text of a tool's output. If the output is a message with the result, it also returns the id of the call. An
// object may be stored as JSON text.
func toolResult(output modelapi.Value) (callID, text string) {
	for _, item := range output.Messages("") {
		if len(item.Results) == 1 && item.Results[0].CallID != "" {
			return item.Results[0].CallID, item.Results[0].Output
		}
	}
	text = output.Output()
	if inner := modelapi.ParseValue([]byte(text)); inner.Kind() == '{' {
		return "", inner.Output()
	}
	return "", text
}

// otelKind returns the kind of a span from the attributes of the GenAI conventions, OpenInference, the Vercel AI SDK or
// OpenLLMetry.
func otelKind(s *otelSpan) observationKind {
	a := s.attributes
	for _, name := range []string{"gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "llm.request.type"} {
		if kind, ok := kinds[strings.ToLower(a.text(name))]; ok {
			return kind
		}
	}
	switch operation := a.text("ai.operationId"); { // of the Vercel AI SDK
	case operation == "ai.toolCall":
		return toolSpan
	case strings.HasPrefix(operation, "ai.generate"), strings.HasPrefix(operation, "ai.stream"):
		return modelCall
	}
	return otherSpan
}

// inputs returns the messages of the prompt: the system prompt, the messages of the events, and those of the first attribute that has some.
func (s *otelSpan) inputs() []modelapi.Item {
	a := s.attributes
	items := a["gen_ai.system_instructions"].Messages("system")
	for _, e := range s.events {
		if role, ok := strings.CutSuffix(strings.TrimPrefix(e.name, "gen_ai."), ".message"); ok && modelapi.RoleOf(role) != "" {
			items = append(items, e.message(role)...)
		}
		items = append(items, e.attributes["gen_ai.input.messages"].Messages("user")...)
	}
	prompt := a.first("gen_ai.input.messages", "ai.prompt.messages", "ai.prompt")
	for _, prefix := range []string{"llm.input_messages.", "gen_ai.prompt."} {
		if !prompt.IsSet() {
			prompt = a.list(prefix)
		}
	}
	if !prompt.IsSet() && len(items) == 0 {
		prompt = a.first("input.value", "input")
	}
	return append(items, prompt.Messages("user")...)
}

// outputs returns the messages of the response, from the first event or attribute that has some.
func (s *otelSpan) outputs() []modelapi.Item {
	a := s.attributes
	for _, e := range s.events {
		if e.name == "gen_ai.choice" {
			return e.message("assistant")
		}
		if v := e.attributes["gen_ai.output.messages"]; v.IsSet() {
			return v.Messages("assistant")
		}
	}
	output := a["gen_ai.output.messages"]
	for _, prefix := range []string{"llm.output_messages.", "gen_ai.completion."} {
		if !output.IsSet() {
			output = a.list(prefix)
		}
	}
	text, calls := a.text("ai.response.text", "ai.response.object"), a["ai.response.toolCalls"]
	if !output.IsSet() && (text != "" || calls.IsSet()) {
		item := modelapi.Item{Role: "assistant", Text: text}
		for _, more := range calls.Messages("") {
			item.Calls = append(item.Calls, more.Calls...)
		}
		return []modelapi.Item{item}
	}
	if !output.IsSet() {
		output = a.first("output.value", "output")
	}
	return output.Messages("assistant")
}

// message returns the message in an event. Its fields are attributes of the event, or members of the object in the attribute message.
func (e *otelEvent) message(role string) []modelapi.Item {
	members := map[string]json.RawMessage{"role": json.RawMessage(strconv.Quote(role))}
	add := func(a attributes) {
		for name, value := range a {
			if name == "message" || name == "tool_calls" {
				value = value.Parsed()
			}
			members[name] = value.Raw()
		}
	}
	add(e.attributes)
	if inner := e.attributes["message"].Parsed(); inner.Kind() == '{' {
		delete(members, "message")
		add(parseAttributes(inner))
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
// element. It returns a missing value without such attributes.
func (a attributes) list(prefix string) modelapi.Value {
	const maxDepth = 12
	root := map[string]any{} // by the first key behind the prefix, then by the next one, and so on
	for _, name := range slices.Sorted(maps.Keys(a)) {
		path, ok := strings.CutPrefix(name, prefix)
		if !ok || strings.Count(path, ".") > maxDepth {
			continue
		}
		object, keys := root, strings.Split(path, ".")
		last := keys[len(keys)-1]
		for _, key := range keys[:len(keys)-1] {
			inner, ok := object[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				object[key] = inner
			}
			object = inner
		}
		if object[last] == nil && a[name].IsSet() {
			object[last] = json.RawMessage(a[name].Raw())
		}
	}
	raw, err := json.Marshal(nested(root))
	if err != nil || len(root) == 0 {
		return modelapi.Value{}
	}
	return modelapi.ParseValue(raw)
}

// nested converts maps with numbers as keys to lists, at any depth. OpenInference wraps each element of a list in an object with one
// member, such as "message"; nested replaces the wrapper by its member, and the name "contents" by "content".
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
		for i := 0; m[strconv.Itoa(i)] != nil; i++ {
			list = append(list, nested(m[strconv.Itoa(i)]))
		}
		return list
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

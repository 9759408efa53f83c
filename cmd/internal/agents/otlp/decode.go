package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"debrief/cmd/internal/runs"
	"debrief/events"
	"debrief/events/redact"
)

// Lengths of ids, in bytes.
const (
	traceBytes = 16
	spanBytes  = 8
)

const maxNesting = 32 // limits the nesting of attributes and of JSON

// span is a span of a trace, as it is stored.
type span struct {
	trace         string // id in hexadecimal
	root          bool   // has no parent, and is no event
	session, user string // for an erasure
	data          []byte // protobuf
}

// decodeTraces returns the spans of a request, with secrets replaced, and the reasons why others are left out.
func decodeTraces(body []byte, isJSON bool) (spans []span, refused *refusals, err error) {
	var all tracev1.TracesData
	if err := unmarshal(body, isJSON, &all); err != nil {
		return nil, nil, errors.New("the body is no export of traces in OTLP")
	}
	refused = new(refusals)
	for _, r := range all.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				adoptAnnotations(s)
				spans = refused.appendSpan(spans, s, len(s.ParentSpanId) == 0)
			}
		}
	}
	return spans, refused, nil
}

// adoptAnnotations moves a span into the trace of the span that it links to, as its child, if it only carries annotations of that span
// (OpenInference exports later annotations so).
func adoptAnnotations(s *tracev1.Span) {
	isAnnotation := func(a *commonv1.KeyValue) bool { return strings.HasPrefix(a.Key, "annotations.") }
	if len(s.Links) == 1 && len(s.ParentSpanId) == 0 && slices.ContainsFunc(s.Attributes, isAnnotation) {
		s.TraceId, s.ParentSpanId = s.Links[0].TraceId, s.Links[0].SpanId
	}
}

// firstText returns the first of the attributes with a text, or "".
func firstText(all []*commonv1.KeyValue, names []string) string {
	for _, name := range names {
		for _, a := range all {
			if text := a.GetValue().GetStringValue(); a.Key == name && text != "" {
				return text
			}
		}
	}
	return ""
}

const eventPrefix = "gen_ai." // begins the names of the log records that belong to calls of models: messages, choices and evaluations

// decodeLogs returns the events of models in log records: each as a span that has nothing but its ids and the event. Other records are
// accepted and left out, because a program exports all of its log.
func decodeLogs(body []byte, isJSON bool) (spans []span, refused *refusals, err error) {
	var all logsv1.LogsData
	if err := unmarshal(body, isJSON, &all); err != nil {
		return nil, nil, errors.New("the body is no export of logs in OTLP")
	}
	refused = new(refusals)
	for _, r := range all.ResourceLogs {
		for _, scope := range r.ScopeLogs {
			for _, l := range scope.LogRecords {
				if e := eventOf(l); e != nil {
					spans = refused.appendSpan(spans, &tracev1.Span{TraceId: l.TraceId, SpanId: l.SpanId, Events: []*tracev1.Span_Event{e}}, false)
				}
			}
		}
	}
	return spans, refused, nil
}

// eventOf returns the event of a log record, or nil if it is no event of a model. The fields of its body become attributes.
func eventOf(l *logsv1.LogRecord) *tracev1.Span_Event {
	name := l.EventName
	for _, a := range l.Attributes {
		if name == "" && a.Key == "event.name" {
			name = a.GetValue().GetStringValue()
		}
	}
	if !strings.HasPrefix(name, eventPrefix) {
		return nil
	}
	e := &tracev1.Span_Event{TimeUnixNano: max(l.TimeUnixNano, l.ObservedTimeUnixNano), Name: name, Attributes: l.Attributes}
	switch body := l.Body.GetValue().(type) {
	case *commonv1.AnyValue_KvlistValue:
		e.Attributes = append(e.Attributes, body.KvlistValue.GetValues()...)
	case *commonv1.AnyValue_StringValue:
		e.Attributes = append(e.Attributes, &commonv1.KeyValue{Key: "message", Value: l.Body})
	}
	return e
}

func unmarshal(body []byte, isJSON bool, into proto.Message) error {
	if isJSON {
		return unmarshalJSON(body, into)
	}
	return proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 2 * maxNesting}.Unmarshal(body, into)
}

// appendSpan appends a span with secrets replaced, or counts why it is left out. isRoot becomes span.root.
func (r *refusals) appendSpan(list []span, s *tracev1.Span, isRoot bool) []span {
	if len(s.TraceId) != traceBytes || len(s.SpanId) != spanBytes {
		r.add("a span or event without a valid id of its trace or span")
		return list
	}
	redactSpan(s)
	data, err := proto.Marshal(s)
	switch {
	case err != nil:
		r.add("a span or event with invalid text")
	case len(data) > maxSpan:
		r.add(fmt.Sprintf("a span or event of more than %d bytes", maxSpan))
	default:
		list = append(list, span{
			trace: hex.EncodeToString(s.TraceId), root: isRoot, data: data,
			session: events.FitName(firstText(s.Attributes, runs.SessionAttributes)), user: events.FitName(firstText(s.Attributes, runs.UserAttributes)),
		})
	}
	return list
}

// unmarshalJSON decodes OTLP in JSON. Its ids are hexadecimal, where protobuf in JSON has base64.
func unmarshalJSON(body []byte, into proto.Message) error {
	var tree any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return err
	}
	if d.More() {
		return errors.New("text after the object")
	}
	convertIDs(tree)
	converted, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 2 * maxNesting}.Unmarshal(converted, into)
}

// idFields are the fields with ids. An attribute is no such field: its name is a value of the field key.
var idFields = map[string]bool{"traceId": true, "spanId": true, "parentSpanId": true, "trace_id": true, "span_id": true, "parent_span_id": true}

// convertIDs replaces hexadecimal ids by base64, at any depth. The decoder of JSON limits the depth. An invalid id becomes empty.
func convertIDs(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			convertIDs(e)
		}
	case map[string]any:
		for name, e := range v {
			if text, ok := e.(string); ok && idFields[name] {
				raw, _ := hex.DecodeString(text)
				v[name] = base64.StdEncoding.EncodeToString(raw)
				continue
			}
			convertIDs(e)
		}
	}
}

// redactSpan replaces secrets in the texts of a span.
func redactSpan(s *tracev1.Span) {
	s.Name = redactText(s.Name)
	redactAttributes(s.Attributes, 0)
	for _, e := range s.Events {
		e.Name = redactText(e.Name)
		redactAttributes(e.Attributes, 0)
	}
	if s.Status != nil {
		s.Status.Message = redactText(s.Status.Message)
	}
	s.Links, s.TraceState = nil, "" // no reader uses them
}

// redactText replaces secrets in a text. A text that is JSON stays JSON, because readers parse it.
func redactText(s string) string { return redact.Text(strings.ToValidUTF8(s, "\uFFFD")) }

func redactAttributes(all []*commonv1.KeyValue, depth int) {
	for _, a := range all {
		a.Key = redactText(a.Key)
		redactValue(a.Key, a.GetValue(), depth)
	}
}

// redactValue replaces secrets in the value of an attribute. It empties a value that is nested too deep.
func redactValue(name string, v *commonv1.AnyValue, depth int) {
	if depth > maxNesting && v != nil {
		v.Value = nil
		return
	}
	switch inner := v.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		inner.StringValue = redactNamed(name, redactText(inner.StringValue))
	case *commonv1.AnyValue_ArrayValue:
		for _, e := range inner.ArrayValue.GetValues() {
			redactValue(name, e, depth+1)
		}
	case *commonv1.AnyValue_KvlistValue:
		redactAttributes(inner.KvlistValue.GetValues(), depth+1)
	}
}

// maxNamed limits the values that are examined with their names, in bytes. A longer one is no password.
const maxNamed = 1024

// redactNamed returns the value of an attribute, or a mark if its name makes it a secret, such as db.password. redact.Text needs both side by side
// in one text, so redactNamed joins them in an object of JSON.
func redactNamed(name, value string) string {
	if value == "" || len(value) > maxNamed {
		return value
	}
	if value[0] == '{' || value[0] == '[' { // JSON has names inside, by which redactText has found secrets
		return value
	}
	pair, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		return value
	}
	var cleaned map[string]string
	if json.Unmarshal([]byte(redact.Text(string(pair))), &cleaned) != nil || len(cleaned) != 1 || cleaned[name] == "" {
		return value
	}
	return cleaned[name]
}

// isEvent reports whether a stored span is an event of a log record.
func isEvent(s *tracev1.Span) bool {
	return s.StartTimeUnixNano == 0 && s.Name == "" && len(s.Events) == 1
}

// spanJSON returns a span in the form of OTLP in JSON, which package runs reads. It changes s.
func spanJSON(s *tracev1.Span) ([]byte, error) {
	ids := map[string]string{"traceId": hex.EncodeToString(s.TraceId), "spanId": hex.EncodeToString(s.SpanId), "parentSpanId": hex.EncodeToString(s.ParentSpanId)}
	s.TraceId, s.SpanId = nil, nil
	s.ParentSpanId = nil
	rest, err := protojson.Marshal(s)
	if err != nil {
		return nil, err
	}
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal(rest, &object); err != nil {
		return nil, err
	}
	for name, value := range ids {
		object[name], _ = json.Marshal(value) // a text cannot fail
	}
	return json.Marshal(object)
}

// refusals count the spans that are left out, with the first reason.
type refusals struct {
	spans  int
	reason string
}

// add counts a span.
func (r *refusals) add(reason string) {
	if r.spans == 0 {
		r.reason = reason
	}
	r.spans++
}

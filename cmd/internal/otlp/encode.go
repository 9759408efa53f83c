package otlp

import (
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers of the messages of opentelemetry-proto: common/v1, resource/v1, trace/v1 and collector/trace/v1.
const (
	requestResourceSpans = 1

	resourceSpansResource, resourceSpansScopeSpans, resourceSpansSchema = 1, 2, 3

	resourceAttributes = 1

	scopeSpansScope, scopeSpansSpans, scopeSpansSchema = 1, 2, 3

	scopeName, scopeVersion, scopeAttributes = 1, 2, 3

	spanTrace, spanID, spanState, spanParent, spanName, spanKind, spanStart, spanEnd = 1, 2, 3, 4, 5, 6, 7, 8
	spanAttributes, spanAttributesDropped, spanEvents, spanEventsDropped             = 9, 10, 11, 12
	spanLinks, spanLinksDropped, spanStatus, spanFlags                               = 13, 14, 15, 16

	eventTime, eventName, eventAttributes, eventAttributesDropped = 1, 2, 3, 4

	linkTrace, linkSpan, linkState, linkAttributes, linkAttributesDropped, linkFlags = 1, 2, 3, 4, 5, 6

	statusDescription, statusCode = 2, 3

	pairKey, pairValue = 1, 2 // of KeyValue

	valueString, valueBool, valueInt, valueDouble, valueArray, valueMap, valueBytes = 1, 2, 3, 4, 5, 6, 7 // of AnyValue

	listValues = 1 // of ArrayValue and KeyValueList
)

// Codes of a status. Those of package codes have another order.
const (
	statusOK    = 1
	statusError = 2
)

// Bits of the flags of a span and a link, above the eight W3C trace flags.
const (
	parentIsKnown  = 1 << 8 // the next bit is valid
	parentIsRemote = 1 << 9
)

// message is an encoded protobuf message. Its methods append a field and omit the default value, as proto3 requires.
type message []byte

func (m *message) bytes(n protowire.Number, v []byte) {
	if len(v) > 0 {
		*m = protowire.AppendBytes(protowire.AppendTag(*m, n, protowire.BytesType), v)
	}
}

// invalid replaces bytes that are not UTF-8. A collector rejects a request with such a string.
const invalid = "\uFFFD"

func (m *message) text(n protowire.Number, v string) {
	if v != "" {
		*m = protowire.AppendString(protowire.AppendTag(*m, n, protowire.BytesType), strings.ToValidUTF8(v, invalid))
	}
}

func (m *message) number(n protowire.Number, v uint64) {
	if v != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, n, protowire.VarintType), v)
	}
}

// dropped appends a number of dropped items, which is a uint32.
func (m *message) dropped(n protowire.Number, v int) {
	m.number(n, uint64(min(max(v, 0), math.MaxUint32)))
}

func (m *message) time(n protowire.Number, t time.Time) {
	if v := t.UnixNano(); v > 0 {
		*m = protowire.AppendFixed64(protowire.AppendTag(*m, n, protowire.Fixed64Type), uint64(v))
	}
}

func (m *message) flags(n protowire.Number, v uint32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, n, protowire.Fixed32Type), v)
}

// child appends a message, also an empty one.
func (m *message) child(n protowire.Number, c message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, n, protowire.BytesType), c)
}

func (m *message) attributes(n protowire.Number, all []attribute.KeyValue) {
	for _, a := range all {
		m.child(n, pair(a))
	}
}

// encode returns an ExportTraceServiceRequest with the spans in their order. All spans have the resource of the first one,
// because they come from one provider.
func encode(spans []sdk.ReadOnlySpan) []byte {
	if len(spans) == 0 {
		return nil
	}
	var request, group message
	res := spans[0].Resource()
	group.child(resourceSpansResource, resourceMessage(res))
	for len(spans) > 0 {
		n, scope := 1, spans[0].InstrumentationScope()
		for n < len(spans) && spans[n].InstrumentationScope() == scope {
			n++
		}
		group.child(resourceSpansScopeSpans, scopeSpansMessage(scope, spans[:n]))
		spans = spans[n:]
	}
	group.text(resourceSpansSchema, res.SchemaURL())
	request.child(requestResourceSpans, group)
	return request
}

func resourceMessage(r *resource.Resource) (m message) {
	m.attributes(resourceAttributes, r.Attributes())
	return m
}

func scopeSpansMessage(s instrumentation.Scope, spans []sdk.ReadOnlySpan) (m message) {
	var scope message
	scope.text(scopeName, s.Name)
	scope.text(scopeVersion, s.Version)
	scope.attributes(scopeAttributes, s.Attributes.ToSlice())
	m.child(scopeSpansScope, scope)
	for _, span := range spans {
		m.child(scopeSpansSpans, spanMessage(span))
	}
	m.text(scopeSpansSchema, s.SchemaURL)
	return m
}

func spanMessage(s sdk.ReadOnlySpan) (m message) {
	own, parent := s.SpanContext(), s.Parent()
	traceID, id := own.TraceID(), own.SpanID()
	m.bytes(spanTrace, traceID[:])
	m.bytes(spanID, id[:])
	m.text(spanState, own.TraceState().String())
	if id := parent.SpanID(); id.IsValid() {
		m.bytes(spanParent, id[:])
	}
	m.text(spanName, s.Name())
	m.number(spanKind, uint64(s.SpanKind())) // both enumerations have the same order
	m.time(spanStart, s.StartTime())
	m.time(spanEnd, s.EndTime())
	m.attributes(spanAttributes, s.Attributes())
	m.dropped(spanAttributesDropped, s.DroppedAttributes())
	for _, e := range s.Events() {
		m.child(spanEvents, eventMessage(e))
	}
	m.dropped(spanEventsDropped, s.DroppedEvents())
	for _, l := range s.Links() {
		m.child(spanLinks, linkMessage(l))
	}
	m.dropped(spanLinksDropped, s.DroppedLinks())
	m.child(spanStatus, statusMessage(s.Status()))
	m.flags(spanFlags, flagsOf(own.TraceFlags(), parent))
	return m
}

func eventMessage(e sdk.Event) (m message) {
	m.time(eventTime, e.Time)
	m.text(eventName, e.Name)
	m.attributes(eventAttributes, e.Attributes)
	m.dropped(eventAttributesDropped, e.DroppedAttributeCount)
	return m
}

func linkMessage(l sdk.Link) (m message) {
	to := l.SpanContext
	traceID, id := to.TraceID(), to.SpanID()
	m.bytes(linkTrace, traceID[:])
	m.bytes(linkSpan, id[:])
	m.text(linkState, to.TraceState().String())
	m.attributes(linkAttributes, l.Attributes)
	m.dropped(linkAttributesDropped, l.DroppedAttributeCount)
	m.flags(linkFlags, flagsOf(to.TraceFlags(), to))
	return m
}

func statusMessage(s sdk.Status) (m message) {
	m.text(statusDescription, s.Description)
	switch s.Code {
	case codes.Ok:
		m.number(statusCode, statusOK)
	case codes.Error:
		m.number(statusCode, statusError)
	}
	return m
}

// flagsOf returns the W3C flags and whether the other side of a parent or a link is remote.
func flagsOf(w3c trace.TraceFlags, other trace.SpanContext) uint32 {
	flags := uint32(w3c) | parentIsKnown
	if other.IsRemote() {
		flags |= parentIsRemote
	}
	return flags
}

func pair(a attribute.KeyValue) (m message) {
	m.text(pairKey, string(a.Key))
	m.child(pairValue, value(a.Value))
	return m
}

// value returns an AnyValue. It contains also a default value, because the field is one of several.
func value(v attribute.Value) (m message) {
	switch v.Type() {
	case attribute.BOOL:
		return protowire.AppendVarint(protowire.AppendTag(m, valueBool, protowire.VarintType), protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return protowire.AppendVarint(protowire.AppendTag(m, valueInt, protowire.VarintType), uint64(v.AsInt64()))
	case attribute.FLOAT64:
		return protowire.AppendFixed64(protowire.AppendTag(m, valueDouble, protowire.Fixed64Type), math.Float64bits(v.AsFloat64()))
	case attribute.STRING:
		return protowire.AppendString(protowire.AppendTag(m, valueString, protowire.BytesType), strings.ToValidUTF8(v.AsString(), invalid))
	case attribute.BYTESLICE:
		return protowire.AppendBytes(protowire.AppendTag(m, valueBytes, protowire.BytesType), v.AsByteSlice())
	case attribute.BOOLSLICE:
		return list(v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return list(v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return list(v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return list(v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return list(v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.MAP:
		var pairs message
		pairs.attributes(listValues, v.AsMap())
		m.child(valueMap, pairs)
	}
	return m // empty
}

// list returns an AnyValue with an ArrayValue.
func list[T any](all []T, convert func(T) attribute.Value) (m message) {
	var values message
	for _, v := range all {
		values.child(listValues, value(convert(v)))
	}
	m.child(valueArray, values)
	return m
}

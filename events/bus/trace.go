package bus

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
)

// The header events.HeaderTrace carries the trace of an event from message to message. Without Options.Tracer a worker
// copies it. With a tracer, each Publish creates a producer span, and each delivery a consumer span below it. The
// consumer span ends with the disposition of the delivery, and the resulting events carry its context. A batch has as
// many causes as deliveries, so its span has its own trace, linked with the spans of the deliveries.
//
// Attributes identify events. They contain no text of an event.

// Attribute keys: the messaging conventions of OpenTelemetry, and the keys of this project.
const (
	keySystem      = attribute.Key("messaging.system")
	keyOperation   = attribute.Key("messaging.operation.type")
	keySubject     = attribute.Key("messaging.destination.name")
	keyMessage     = attribute.Key("messaging.message.id")
	keyBatch       = attribute.Key("messaging.batch.message_count")
	keyRole        = attribute.Key("debrief.role")
	keyKind        = attribute.Key("debrief.kind")
	keyBook        = attribute.Key("debrief.book")
	keySeq         = attribute.Key("debrief.seq")
	keyDelivery    = attribute.Key("debrief.delivery")
	keyDisposition = attribute.Key("debrief.disposition")
	keyVersion     = attribute.Key("debrief.version")
)

// ContextWithTrace returns ctx with the trace context of a request. An invalid traceparent changes nothing.
func ContextWithTrace(ctx context.Context, traceparent string) context.Context {
	if sc := spanContext(traceparent); sc.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	return ctx
}

// Traceparent returns the header value of the trace of ctx, or "" without one.
func Traceparent(ctx context.Context) string { return traceparent(trace.SpanContextFromContext(ctx)) }

// spanContext parses a trace context. The result is invalid if the trace context is.
func spanContext(traceparent string) trace.SpanContext {
	id := events.TraceID(traceparent)
	if id == "" {
		return trace.SpanContext{}
	}
	c := trace.SpanContextConfig{Remote: true}
	c.TraceID, _ = trace.TraceIDFromHex(id) // events.TraceID has validated the whole text
	c.SpanID, _ = trace.SpanIDFromHex(traceparent[36:52])
	flags, _ := strconv.ParseUint(traceparent[53:55], 16, 8)
	c.TraceFlags = trace.TraceFlags(flags) & trace.FlagsSampled
	return trace.NewSpanContext(c)
}

// traceparent formats a span context as a header value. It returns "" for an invalid one.
func traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
}

// startPublishSpan starts the span of a publish, and sets the trace of o. The event belongs to the trace that o has already,
// otherwise to the trace of ctx, otherwise to a new one.
func (l *link) startPublishSpan(ctx context.Context, e events.Event, o *PublishOptions) (context.Context, trace.Span) {
	if events.TraceID(o.Trace) == "" {
		o.Trace = traceparent(trace.SpanContextFromContext(ctx))
	} else {
		ctx = ContextWithTrace(ctx, o.Trace)
	}
	if l.tracer == nil {
		if o.Trace == "" {
			o.Trace = events.NewTrace()
		}
		return ctx, trace.SpanFromContext(context.Background()) // a span that records nothing
	}
	ctx, span := l.tracer.Start(ctx, "publish "+string(e.Kind()), trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		keySystem.String("nats"), keyOperation.String("send"), keySubject.String(e.Kind().Subject(e.InBook())),
		keyMessage.String(string(e.EventID())), keyKind.String(string(e.Kind())), keyBook.String(string(e.InBook())),
	))
	o.Trace = traceparent(span.SpanContext())
	return ctx, span
}

// setSpanError sets an error on a span. A nil error changes nothing.
func setSpanError(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, Loggable(err))
	}
}

// startSpan starts the span of a delivery, unless tracing is disabled.
func (r *runner) startSpan(it *item) {
	if r.conn.tracer == nil {
		return
	}
	kind, book, _ := events.ParseSubject(it.msg.Subject())
	ctx, span := r.conn.tracer.Start(ContextWithTrace(context.Background(), it.d.Trace), r.worker.Role+" "+string(kind),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			keySystem.String("nats"), keyOperation.String("process"), keySubject.String(it.msg.Subject()),
			keyMessage.String(messageID(it.msg.Headers())), keyRole.String(r.worker.Role), keyKind.String(string(kind)),
			keyBook.String(string(book)), keySeq.Int64(int64(it.d.Seq)), keyDelivery.Int(it.latestDelivery),
		))
	it.span = span
	it.d.Trace = traceparent(trace.SpanContextFromContext(ctx))
}

// endSpan ends the span of a delivery.
func (it *item) endSpan() {
	if it.span == nil {
		return
	}
	if it.disposition == "" || it.disposition == hold { // the worker stops before the item is finished
		it.disposition = release
	}
	it.span.SetAttributes(keyDisposition.String(string(it.disposition)))
	if it.result != nil && it.result.Version != 0 {
		it.span.SetAttributes(keyVersion.Int64(int64(it.result.Version)))
	}
	setSpanError(it.span, it.err)
	it.span.End()
}

// addSpanEvent adds an event to the span of a delivery. The error may be nil.
func (it *item) addSpanEvent(name string, err error) {
	switch {
	case it.span == nil:
	case err == nil:
		it.span.AddEvent(name)
	default:
		it.span.AddEvent(name, trace.WithAttributes(attribute.String("error.message", Loggable(err))))
	}
}

// handlerContext returns the context for a call of the handler. It carries the span of the delivery or the batch, and a
// logger that names the delivery or the book. Call end after the handler: it ends the span of a batch.
func (p *processor) handlerContext(items []*item) (ctx context.Context, end func()) {
	if p.worker.Batch == 1 {
		it := items[0]
		ctx = p.work
		if it.span != nil {
			ctx = trace.ContextWithSpan(ctx, it.span)
		}
		logger := p.flight.itemLog(it)
		return logger.WithContext(ctx), func() {}
	}
	book := string(items[0].d.Event.InBook())
	ctx = p.log.With().Str(events.LogBook, book).Logger().WithContext(p.work)
	if p.conn.tracer == nil {
		return ctx, func() {}
	}
	links := make([]trace.Link, len(items))
	for i, it := range items {
		links[i].SpanContext = it.span.SpanContext()
	}
	ctx, span := p.conn.tracer.Start(ctx, p.worker.Role+" batch", trace.WithNewRoot(), trace.WithLinks(links...), trace.WithAttributes(
		keyRole.String(p.worker.Role), keyBook.String(book), keyBatch.Int(len(items)),
	))
	for _, it := range items { // so that the trace of an event leads to the batch
		it.span.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, func() { span.End() }
}

package bus

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/events/redact"
)

// An event's trace goes from message to message in events.HeaderTrace. Without Options.Tracer a worker passes it on as it
// is. With one, who hands in an event makes a producer span, and every delivery of it a consumer span below that, which
// ends with the delivery's verdict; what is emitted for a delivery carries the context of its span. A role that takes
// batches is handed each in a span of its own trace, linked with those of the batch: it has as many causes as deliveries.
//
// Attributes name events, and hold nothing of what they say.

// Keys of attributes: messaging conventions of OpenTelemetry, and our own.
const (
	keySystem    = attribute.Key("messaging.system")
	keyOperation = attribute.Key("messaging.operation.type")
	keySubject   = attribute.Key("messaging.destination.name")
	keyMessage   = attribute.Key("messaging.message.id")
	keyBatch     = attribute.Key("messaging.batch.message_count")
	keyRole      = attribute.Key("debrief.role")
	keyKind      = attribute.Key("debrief.kind")
	keyBook      = attribute.Key("debrief.book")
	keySeq       = attribute.Key("debrief.seq")
	keyDelivery  = attribute.Key("debrief.delivery")
	keyVerdict   = attribute.Key("debrief.verdict")
	keyVersion   = attribute.Key("debrief.version")
	keyDuplicate = attribute.Key("debrief.duplicate")
)

// Traced is ctx within the trace that a request says it belongs to; what is no trace context changes nothing.
func Traced(ctx context.Context, traceparent string) context.Context {
	if sc := spanContext(traceparent); sc.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	return ctx
}

// spanContext is what a trace context says, invalid where it is none.
func spanContext(traceparent string) trace.SpanContext {
	id := events.TraceID(traceparent)
	if id == "" {
		return trace.SpanContext{}
	}
	c := trace.SpanContextConfig{Remote: true}
	c.TraceID, _ = trace.TraceIDFromHex(id) // what TraceID has looked at
	c.SpanID, _ = trace.SpanIDFromHex(traceparent[36:52])
	if strings.IndexByte("13579bdf", traceparent[54]) >= 0 {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// traceparent is a span context as a header has it, "" for an invalid one.
func traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
}

// offer begins the span of an event that somebody hands in. The event belongs to the trace that the marks name, else to that
// of ctx, else to a new one.
func (c *Conn) offer(ctx context.Context, e events.Event, m *Marks) (context.Context, trace.Span) {
	if events.TraceID(m.Trace) == "" {
		m.Trace = traceparent(trace.SpanContextFromContext(ctx))
	} else {
		ctx = Traced(ctx, m.Trace)
	}
	if c.tracer == nil {
		if m.Trace == "" {
			m.Trace = events.NewTrace()
		}
		return ctx, trace.SpanFromContext(context.Background()) // one that records nothing
	}
	ctx, span := c.tracer.Start(ctx, "publish "+string(e.Kind()), trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		keySystem.String("nats"), keyOperation.String("send"), keySubject.String(e.Kind().Subject(e.InBook())),
		keyMessage.String(string(e.EventID())), keyKind.String(string(e.Kind())), keyBook.String(string(e.InBook())),
	))
	m.Trace = traceparent(span.SpanContext())
	return ctx, span
}

// fail notes an error on a span.
func fail(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, Loggable(err))
	}
}

// begin begins the span of a delivery.
func (r *run) begin(it *item) {
	if r.c.tracer == nil {
		return
	}
	kind, book, _ := events.ParseSubject(it.msg.Subject())
	ctx, span := r.c.tracer.Start(Traced(context.Background(), it.d.Trace), r.w.Role+" "+string(kind),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			keySystem.String("nats"), keyOperation.String("process"), keySubject.String(it.msg.Subject()),
			keyMessage.String(messageID(it.msg.Headers())), keyRole.String(r.w.Role), keyKind.String(string(kind)),
			keyBook.String(string(book)), keySeq.Int64(int64(it.d.Seq)), keyDelivery.Int(it.delivered),
		))
	it.span, it.d.Trace = span, traceparent(trace.SpanContextFromContext(ctx))
}

// end ends the span of a delivery that is let go of.
func (it *item) end() {
	if it.span == nil {
		return
	}
	if it.verdict == "" || it.verdict == hold {
		it.verdict = back
	}
	it.span.SetAttributes(keyVerdict.String(string(it.verdict)))
	if it.done != nil && it.done.Version != 0 {
		it.span.SetAttributes(keyVersion.Int64(int64(it.done.Version)))
	}
	fail(it.span, it.why)
	it.span.End()
}

// mark notes on the span of a delivery what happened to it meanwhile; err may be nil.
func (it *item) mark(what string, err error) {
	switch {
	case it.span == nil:
	case err == nil:
		it.span.AddEvent(what)
	default:
		it.span.AddEvent(what, trace.WithAttributes(attribute.String("error.message", Loggable(err))))
	}
}

// enter is the context in which deliveries are handled: what is done in it is part of their trace, and the lines of
// zerolog.Ctx say what they are about. Call end when they are handled.
func (r *run) enter(items []*item) (ctx context.Context, end func()) {
	if r.w.Batch == 1 {
		log, ctx := r.about(items[0]), r.work
		if it := items[0]; it.span != nil {
			ctx = trace.ContextWithSpan(ctx, it.span)
		}
		return log.WithContext(ctx), func() {}
	}
	book := string(items[0].d.Event.InBook())
	ctx = r.log.With().Str(events.LogBook, book).Logger().WithContext(r.work)
	if r.c.tracer == nil {
		return ctx, func() {}
	}
	links := make([]trace.Link, len(items))
	for i, it := range items {
		links[i].SpanContext = it.span.SpanContext()
	}
	ctx, span := r.c.tracer.Start(ctx, r.w.Role+" batch", trace.WithNewRoot(), trace.WithLinks(links...), trace.WithAttributes(
		keyRole.String(r.w.Role), keyBook.String(book), keyBatch.Int(len(items)),
	))
	for _, it := range items { // so that one finds from an event's trace what became of it
		it.span.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, func() { span.End() }
}

// about is a log whose lines say which delivery they are about.
func (r *run) about(it *item) zerolog.Logger {
	m := r.message(it)
	_, book, _ := events.ParseSubject(m.Subject())
	return r.log.With().Str(events.LogTrace, events.TraceID(it.d.Trace)).Str(events.LogEvent, messageID(m.Headers())).
		Str(events.LogBook, string(book)).Uint64(events.LogSeq, it.d.Seq).Logger()
}

// messageID is the event's id that a message has, at most as long as one of ours: anybody may have written it.
func messageID(h map[string][]string) string {
	return strings.ToValidUTF8(events.Beginning(string(EventID(h)), 64), "")
}

// LogIn is the log for a line about what ctx was made for: in a handler the lines say which delivery that is.
func (c *Conn) LogIn(ctx context.Context) *zerolog.Logger {
	if l := zerolog.Ctx(ctx); l.GetLevel() != zerolog.Disabled {
		return l
	}
	return &c.log
}

// maxLoggable bounds an error in a log line or a span, in bytes.
const maxLoggable = 500

// Loggable is an error as logs and traces may have it: in one line, and without what models said, which is for dead
// letters. An error that holds such a thing has a method Loggable that says without it what is wrong.
func Loggable(err error) string {
	return events.Beginning(oneLine(redact.Text(withhold(err, err.Error()))), maxLoggable)
}

func withhold(err error, text string) string {
	switch e := err.(type) {
	case interface{ Loggable() string }:
		return strings.ReplaceAll(text, err.Error(), e.Loggable())
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return withhold(inner, text)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = withhold(inner, text)
		}
	}
	return text
}

// panicError is a panic as the error of what was handled.
type panicError struct{ value any }

func (p *panicError) Error() string { return fmt.Sprintf("handler panicked: %v", p.value) }

// Loggable has the runtime's own words, and of anything else only what it is: it may hold what a client or a model said.
func (p *panicError) Loggable() string {
	if err, ok := p.value.(runtime.Error); ok {
		return "handler panicked: " + err.Error()
	}
	return fmt.Sprintf("handler panicked with a value of type %T", p.value)
}

package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/events/natsd"
)

const theirs, theirTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"

// connectTraced returns a connection with a tracer, and its exporter.
func connectTraced(t *testing.T) (*Conn, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	nc, err := serve(t, natsd.Config{}).Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := Open(t.Context(), nc, Options{Policy: fastPolicy, Tracer: sdk.NewTracerProvider(sdk.WithSyncer(spans)).Tracer("test")})
	if err != nil {
		t.Fatal(err)
	}
	return c, spans
}

// spansNamed returns the spans with a name, in order of their start.
func spansNamed(spans *tracetest.InMemoryExporter, name string) tracetest.SpanStubs {
	all := slices.DeleteFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
	slices.SortFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return all
}

func spanAttribute(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// traceHeader returns the trace context in the header of a stored message.
func traceHeader(t *testing.T, c *Conn, stream string, seq uint64) string {
	t.Helper()
	s, err := c.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	return m.Header.Get(events.HeaderTrace)
}

func TestDeliveriesAreSpansOfEventTrace(t *testing.T) {
	t.Parallel()
	c, spans := connectTraced(t)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(ctx context.Context, d *Delivery) Result {
		_, inner := trace.SpanFromContext(ctx).TracerProvider().Tracer("model").Start(ctx, "call")
		inner.End()
		if d.Attempt == 1 {
			return Result{Err: errHandler}
		}
		return answer(d)
	})})
	receipt := publish(t, c, task("main", 1))
	eventually(t, "both deliveries ended", func() bool { return len(spansNamed(spans, "generator task")) == 2 }) // shortly after their acks

	sent, handled, calls := spansNamed(spans, "publish task"), spansNamed(spans, "generator task"), spansNamed(spans, "call")
	if len(sent) != 1 || len(handled) != 2 || len(calls) != 2 {
		t.Fatalf("got %d publishes, %d deliveries and %d calls, want 1, 2 and 2", len(sent), len(handled), len(calls))
	}
	if got := sent[0].SpanContext.TraceID().String(); sent[0].Parent.IsValid() || got != receipt.Trace || sent[0].SpanKind != trace.SpanKindProducer {
		t.Errorf("publish: got trace %s under %v, want the receipt's %s, and no parent", got, sent[0].Parent, receipt.Trace)
	}
	for i, want := range []struct {
		verdict string
		status  codes.Code
	}{{"retry", codes.Error}, {"ack", codes.Unset}} {
		s := handled[i]
		if s.Parent.SpanID() != sent[0].SpanContext.SpanID() || s.SpanContext.TraceID() != sent[0].SpanContext.TraceID() || s.SpanKind != trace.SpanKindConsumer {
			t.Errorf("delivery %d: is not below the publish", i+1)
		}
		if spanAttribute(s, keyDisposition) != want.verdict || s.Status.Code != want.status || spanAttribute(s, keyDelivery) != fmt.Sprint(i+1) {
			t.Errorf("delivery %d: got %v %v, want the verdict %s and the status %s", i+1, s.Attributes, s.Status, want.verdict, want.status)
		}
		if spanAttribute(s, keyBook) != "main" || spanAttribute(s, keySeq) != "1" || spanAttribute(s, keyMessage) != string(task("main", 1).EventID()) {
			t.Errorf("delivery %d: got %v", i+1, s.Attributes)
		}
		if calls[i].Parent.SpanID() != s.SpanContext.SpanID() {
			t.Errorf("delivery %d: what its handler called is not below it", i+1)
		}
	}
	if got, want := traceHeader(t, c, events.StreamExecutions, 1), traceparent(handled[1].SpanContext); got != want {
		t.Errorf("what came of it carries %s, want the context of its delivery, %s", got, want)
	}
}

func TestBatchSpanLinksDeliveries(t *testing.T) {
	t.Parallel()
	c, spans := connectTraced(t)
	publishTasks(t, c, "main", 3)
	start(t, c, Worker{Role: events.RoleGenerator, Batch: 8, Handle: func(_ context.Context, batch []*Delivery) []Result {
		out := make([]Result, len(batch))
		for i := range out {
			out[i].Version = 7
		}
		return out
	}})
	// The spans end shortly after the acks.
	eventually(t, "the deliveries ended", func() bool { return len(spansNamed(spans, "generator task")) == 3 })
	linked := map[trace.SpanID]trace.SpanID{} // from delivery to batch
	for _, b := range spansNamed(spans, "generator batch") {
		if b.Parent.IsValid() {
			t.Errorf("a batch has the parent %v, want none", b.Parent)
		}
		for _, l := range b.Links {
			linked[l.SpanContext.SpanID()] = b.SpanContext.SpanID()
		}
	}
	handled := spansNamed(spans, "generator task")
	if len(handled) != 3 {
		t.Fatalf("got %d deliveries, want 3", len(handled))
	}
	for _, s := range handled {
		batch, ok := linked[s.SpanContext.SpanID()]
		if !ok || len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != batch {
			t.Errorf("a delivery and its batch are not linked both ways: %v", s.Links)
		}
		if spanAttribute(s, keyVersion) != "7" {
			t.Errorf("got %v, want version 7", s.Attributes)
		}
	}
}

// publishTraced publishes a task with a foreign trace header.
func publishTraced(t *testing.T, c *Conn, n int, traceparent string) {
	t.Helper()
	subject, header, data, err := events.Encode(task("main", n))
	if err != nil {
		t.Fatal(err)
	}
	header[events.HeaderTrace] = []string{traceparent}
	header[nats.MsgIdHdr] = []string{string(task("main", n).EventID())}
	if _, err := c.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: data}); err != nil {
		t.Fatal(err)
	}
}

func TestUnsampledTraceStaysUnsampled(t *testing.T) {
	t.Parallel()
	c, spans := connectTraced(t)
	unsampled := strings.TrimSuffix(theirs, "01") + "00"
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	publishTraced(t, c, 1, unsampled)
	await(t, c, events.StreamExecutions, 1)
	awaitIdle(t, c, events.RoleGenerator)
	if got := spans.GetSpans(); len(got) != 0 {
		t.Errorf("got %d spans, want none", len(got))
	}
	if got := traceHeader(t, c, events.StreamExecutions, 1); events.TraceID(got) != theirTrace || !strings.HasSuffix(got, "-00") {
		t.Errorf("what came of it carries %s, want the same trace, not sampled", got)
	}
}

func TestInvalidTraceContextsAreDropped(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *Conn{
		"off": func(t *testing.T) *Conn { return connectNew(t, fastPolicy) },
		"on":  func(t *testing.T) *Conn { c, _ := connectTraced(t); return c },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, junk := open(t), strings.Repeat("junk ", 100)
			start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
				if strings.Contains(d.Trace, "junk") {
					t.Errorf("the handler gets %q", d.Trace)
				}
				return answer(d)
			})})
			publishTraced(t, c, 1, junk)
			await(t, c, events.StreamExecutions, 1)
			if got := traceHeader(t, c, events.StreamExecutions, 1); strings.Contains(got, "junk") || name == "off" && got != "" {
				t.Errorf("what came of it carries %q", got)
			}
			r, err := c.Publish(ContextWithTrace(t.Context(), junk), task("main", 2), PublishOptions{Trace: junk})
			if err != nil || len(r.Trace) != 32 {
				t.Errorf("handed in with junk: got trace %q, %v, want a new one", r.Trace, err)
			}
			r, err = c.Publish(ContextWithTrace(t.Context(), theirs), task("main", 3), PublishOptions{})
			if err != nil || r.Trace != theirTrace {
				t.Errorf("handed in within a trace: got %q, %v, want %s", r.Trace, err, theirTrace)
			}
		})
	}
}

// logLines collects the output of a logger.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logLines) read(t *testing.T) (all []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for dec := json.NewDecoder(bytes.NewReader(l.buf.Bytes())); dec.More(); {
		var line map[string]any
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}

// modelTextError contains text of a model.
type modelTextError struct{ said string }

func (e modelTextError) Error() string    { return "useless: " + e.said }
func (e modelTextError) Loggable() string { return "useless" }

func TestLogLinesNameTheDelivery(t *testing.T) {
	t.Parallel()
	c, out := connectNew(t, Policy{MaxAttempts: 2, BackoffMin: fastPolicy.BackoffMin}), new(logLines)
	c.log = zerolog.New(out)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(ctx context.Context, d *Delivery) Result {
		c.ContextLog(ctx).Info().Msg("from the role")
		if d.Attempt == 2 {
			panic("the canary sang")
		}
		return Result{Err: errors.Join(errHandler, fmt.Errorf("reflect: %w", modelTextError{"the canary sang"}))}
	})})
	e := task("main", 1)
	if _, err := c.Publish(t.Context(), e, PublishOptions{Trace: theirs}); err != nil {
		t.Fatal(err)
	}
	letter := letters(t, c, 1)[0]
	awaitIdle(t, c, events.RoleGenerator)
	if !strings.Contains(letter.Reason, "the canary sang") {
		t.Errorf("the dead letter says %q, want all that is known", letter.Reason)
	}
	if got := traceHeader(t, c, events.StreamDead, 1); got != theirs {
		t.Errorf("the dead letter carries %q, want the event's %s", got, theirs)
	}
	seen := map[string]int{}
	for _, l := range out.read(t) {
		what := l["message"].(string)
		seen[what]++
		for key, want := range map[string]any{
			events.LogTrace: theirTrace, events.LogEvent: string(e.EventID()), events.LogBook: "main",
			events.LogRole: events.RoleGenerator, events.LogSeq: 1.0,
		} {
			if l[key] != want {
				t.Errorf("%q: got %s %v, want %v", what, key, l[key], want)
			}
		}
		if text := fmt.Sprint(l); strings.Contains(text, "canary") {
			t.Errorf("%q holds what was said: %s", what, text)
		}
		if what == "will be retried" && !strings.Contains(l["error"].(string), "reflect: useless") {
			t.Errorf("%q: got %v, want to hear why", what, l["error"])
		}
	}
	for what, n := range map[string]int{"from the role": 2, "will be retried": 1, "handler panicked": 1, "dead letter": 1} {
		if seen[what] != n {
			t.Errorf("got %d lines %q, want %d", seen[what], what, n)
		}
	}
}

package otlp

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
)

// exporter returns the exporter of the SDK, with nothing but its URL and the header of the token.
func (d *desk) exporter(token string, o ...otlptracehttp.Option) sdktrace.SpanExporter {
	d.Helper()
	o = append(o, otlptracehttp.WithEndpointURL(d.url), otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + d.secrets[token]}), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	e, err := otlptracehttp.New(d.Context(), o...)
	if err != nil {
		d.Fatal(err)
	}
	return e
}

// collector keeps the spans of an SDK, which a test then exports in its own order.
type collector struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

func (c *collector) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	return nil
}

func (c *collector) Shutdown(context.Context) error { return nil }

// count is an independent count of what was recorded.
type count struct{ runs, calls, errors, input, output, successes, failures int }

// dialect has the attributes of one instrumentation.
type dialect struct {
	agent, model, tool func(i int) []attribute.KeyValue
	rate               func(root trace.Span, good bool)
}

func evaluate(root trace.Span, good bool) {
	score := 0.0
	if good {
		score = 1
	}
	root.AddEvent("gen_ai.evaluation.result", trace.WithAttributes(attribute.String("gen_ai.evaluation.name", "correctness"), attribute.Float64("gen_ai.evaluation.score.value", score)))
}

func annotate(root trace.Span, good bool) {
	verdict := map[bool]string{true: "correct", false: "incorrect"}[good]
	root.SetAttributes(
		attribute.String("annotations.0.annotation.name", "correctness"), attribute.String("annotations.0.annotation.annotator_kind", "LLM"),
		attribute.Float64("annotations.0.annotation.score", map[bool]float64{true: 0, false: 1}[good]), // a model is wrong, and a person right
		attribute.String("annotations.1.annotation.name", "correctness"), attribute.String("annotations.1.annotation.annotator_kind", "HUMAN"),
		attribute.Float64("annotations.1.annotation.score", map[bool]float64{true: 1, false: 0}[good]), attribute.String("annotations.1.annotation.explanation", verdict),
	)
}

var dialects = map[string]dialect{
	"gen_ai": {
		agent: func(int) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.String("gen_ai.operation.name", "invoke_agent")}
		},
		model: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.conversation.id", fmt.Sprint("s-", i)),
				attribute.String("gen_ai.input.messages", fmt.Sprintf(`[{"role":"user","parts":[{"type":"text","content":"question %d"}]}]`, i)),
				attribute.String("gen_ai.output.messages", fmt.Sprintf(`[{"role":"assistant","parts":[{"type":"text","content":"answer %d"}]}]`, i)),
				attribute.Int("gen_ai.usage.input_tokens", 100+i), attribute.Int("gen_ai.usage.output_tokens", 7),
			}
		},
		tool: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", "search"),
				attribute.String("gen_ai.tool.call.id", fmt.Sprint("call-", i)), attribute.String("gen_ai.tool.call.arguments", `{"q": 1}`), attribute.String("gen_ai.tool.call.result", "shelf 7"),
			}
		},
		rate: evaluate,
	},
	"openinference": {
		agent: func(int) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.String("openinference.span.kind", "AGENT")}
		},
		model: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("openinference.span.kind", "LLM"), attribute.String("session.id", fmt.Sprint("s-", i)),
				attribute.String("llm.input_messages.0.message.role", "user"), attribute.String("llm.input_messages.0.message.content", fmt.Sprint("question ", i)),
				attribute.String("llm.output_messages.0.message.role", "assistant"), attribute.String("llm.output_messages.0.message.content", fmt.Sprint("answer ", i)),
				attribute.Int("llm.token_count.prompt", 100+i), attribute.Int("llm.token_count.completion", 7),
			}
		},
		tool: func(int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("openinference.span.kind", "TOOL"), attribute.String("tool.name", "search"), attribute.String("input.value", `{"q": 1}`), attribute.String("output.value", "shelf 7"),
			}
		},
		rate: annotate,
	},
	"openllmetry": {
		agent: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.String("traceloop.span.kind", "agent"), attribute.String("traceloop.association.properties.session_id", fmt.Sprint("s-", i))}
		},
		model: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("llm.request.type", "chat"), attribute.String("gen_ai.prompt.0.role", "user"), attribute.String("gen_ai.prompt.0.content", fmt.Sprint("question ", i)),
				attribute.String("gen_ai.completion.0.role", "assistant"), attribute.String("gen_ai.completion.0.content", fmt.Sprint("answer ", i)),
				attribute.Int("gen_ai.usage.prompt_tokens", 100+i), attribute.Int("gen_ai.usage.completion_tokens", 7),
			}
		},
		tool: func(int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("traceloop.span.kind", "tool"), attribute.String("traceloop.entity.name", "search"), attribute.String("traceloop.entity.input", `{"q": 1}`), attribute.String("traceloop.entity.output", "shelf 7"),
			}
		},
		rate: evaluate,
	},
	"vercel": {
		agent: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.String("ai.operationId", "ai.generateText"), attribute.String("ai.telemetry.metadata.sessionId", fmt.Sprint("s-", i)), attribute.Int("ai.usage.promptTokens", 9999)}
		},
		model: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("ai.operationId", "ai.generateText.doGenerate"), attribute.String("ai.prompt.messages", fmt.Sprintf(`[{"role":"user","content":[{"type":"text","text":"question %d"}]}]`, i)),
				attribute.String("ai.response.text", fmt.Sprint("answer ", i)), attribute.Int("ai.usage.promptTokens", 100+i), attribute.Int("ai.usage.completionTokens", 7),
			}
		},
		tool: func(i int) []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("ai.operationId", "ai.toolCall"), attribute.String("ai.toolCall.name", "search"), attribute.String("ai.toolCall.id", fmt.Sprint("call-", i)),
				attribute.String("ai.toolCall.args", `{"q": 1}`), attribute.String("ai.toolCall.result", "shelf 7"),
			}
		},
		rate: evaluate,
	},
}

// record records traces in a dialect: an agent with a tool call, which fails in each third trace, and a model call. It returns the spans and
// an independent count.
func record(ctx context.Context, n int, d dialect) (spans []sdktrace.ReadOnlySpan, want count) {
	kept := new(collector)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	tracer := provider.Tracer("agent")
	for i := range n {
		ctx, root := tracer.Start(ctx, "agent", trace.WithAttributes(d.agent(i)...))
		_, tool := tracer.Start(ctx, "search", trace.WithAttributes(d.tool(i)...))
		if i%3 == 0 {
			tool.SetStatus(codes.Error, "the catalogue is closed")
			want.errors++
		}
		tool.End()
		_, model := tracer.Start(ctx, "chat", trace.WithAttributes(d.model(i)...))
		model.End()
		switch i % 4 {
		case 0:
			d.rate(root, true)
			want.successes++
		case 1:
			d.rate(root, false)
			want.failures++
		}
		root.End()
		want.runs++
		want.calls++
		want.input += 100 + i
		want.output += 7
	}
	return kept.spans, want
}

// countOf counts what is stored.
func countOf(t *testing.T, all []*events.Execution) (got count) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range all {
		if seen[e.RunID] {
			t.Errorf("run %s is stored twice", e.RunID)
		}
		seen[e.RunID] = true
		got.runs++
		got.input += e.Usage.InputTokens
		got.output += e.Usage.OutputTokens
		for _, s := range e.Steps {
			for _, c := range s.Calls {
				got.calls++
				if c.Outcome != events.Success && c.Outcome != events.Unknown {
					got.errors++
				}
			}
		}
		switch e.Outcome.Label {
		case events.Success:
			got.successes++
		case events.Failure:
			got.failures++
		}
		var i int
		if _, err := fmt.Sscanf(e.Session, "s-%d", &i); err != nil || !strings.HasSuffix(e.Question, fmt.Sprint(" ", i)) || !strings.HasSuffix(e.Answer, fmt.Sprint(" ", i)) {
			t.Errorf("got session %q, question %q, answer %q", e.Session, e.Question, e.Answer)
		}
	}
	return got
}

// TestExportersOfTheSDK sends traces in each dialect with the unchanged exporter: shuffled over requests, so that the root is not last, and
// a third of them twice.
func TestExportersOfTheSDK(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	n, quiet := 60, 2*time.Second
	if os.Getenv("DEBRIEF_LONG") != "" { // 3 minutes
		n, quiet = 1000, 20*time.Second // the export takes seconds on a slow disk
	}
	for _, name := range slices.Sorted(maps.Keys(dialects)) {
		t.Run(name, func(t *testing.T) { // one after the other: each needs the disk
			d := open(t, Config{Quiet: quiet, Limit: patience})
			spans, want := record(t.Context(), n, dialects[name])
			random := rand.New(rand.NewPCG(1, 2))
			spans = append(spans, spans[:len(spans)/3]...)
			for block := range slices.Chunk(spans, 600) { // so that a trace is in several requests
				random.Shuffle(len(block), func(i, j int) { block[i], block[j] = block[j], block[i] })
			}
			exporter := d.exporter("agent")
			for part := range slices.Chunk(spans, 200) {
				if err := exporter.ExportSpans(t.Context(), part); err != nil {
					t.Fatal(err)
				}
			}
			if got := countOf(t, d.executions()); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			// A second export of everything, and late spans, are the same executions.
			if err := exporter.ExportSpans(t.Context(), spans[:300*n/1000]); err != nil {
				t.Fatal(err)
			}
			d.start(Config{Quiet: 50 * time.Millisecond, Limit: 100 * time.Millisecond})
			if got := countOf(t, d.executions()); got != want {
				t.Errorf("after a second export: got %+v, want %+v", got, want)
			}
		})
	}
}

// TestGatewayDies stops a gateway after it acknowledged spans, and in the middle of the reports. The next one loses and repeats nothing.
func TestGatewayDies(t *testing.T) {
	t.Parallel()
	const n = 60
	d := open(t, Config{Quiet: time.Hour, Limit: time.Hour})
	spans, want := record(t.Context(), n, dialects["gen_ai"])
	exporter := d.exporter("agent")
	for part := range slices.Chunk(spans, 7) {
		if err := exporter.ExportSpans(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.stored(); len(got) > 0 {
		t.Fatalf("got %d executions before the end of the traces", len(got))
	}
	quick := Config{Quiet: 10 * time.Millisecond, Limit: time.Hour}
	for range 20 { // each gateway dies soon after its first sweep began
		stop := d.start(quick)
		time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond)
		stop()
	}
	d.start(quick)
	d.start(quick) // two gateways close the rest
	if got := countOf(t, d.executions()); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

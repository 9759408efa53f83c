package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"debrief/cmd/internal/api"
)

// recorded keeps the spans of an SDK.
type recorded struct{ spans []sdktrace.ReadOnlySpan }

func (r *recorded) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	r.spans = append(r.spans, spans...)
	return nil
}

func (r *recorded) Shutdown(context.Context) error { return nil }

// TestTracesSurviveKills kills gateway and server, which are one process, while an exporter sends traces, while they wait for their end, and
// while their runs are reported. Each trace is one execution.
func TestTracesSurviveKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	const traces = 200
	kept := new(recorded)
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)).Tracer("agent")
	for i := range traces {
		ctx, root := tracer.Start(t.Context(), "agent", trace.WithAttributes(attribute.String("gen_ai.operation.name", "invoke_agent")))
		_, model := tracer.Start(ctx, "chat", trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "chat"),
			attribute.String("gen_ai.input.messages", fmt.Sprintf(`[{"role":"user","parts":[{"type":"text","content":"question %d"}]}]`, i)),
			attribute.String("gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"answer"}]}]`),
		))
		model.End()
		root.End()
	}
	rand.Shuffle(len(kept.spans), func(i, j int) { kept.spans[i], kept.spans[j] = kept.spans[j], kept.spans[i] })

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, data := listener.Addr().String(), t.TempDir()
	_ = listener.Close()
	var server *exec.Cmd
	start := func() {
		cmd, out := startProgram(t, "up", "--data", data, "--listen", "none", "--http", address)
		server = cmd
		lines(t, out, "debrief is up")
	}
	restart := func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		start()
	}
	start()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL("http://"+address+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for part := range slices.Chunk(kept.spans, 5) {
			for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				err := exporter.ExportSpans(t.Context(), part)
				if err == nil {
					break
				}
				if time.Now().After(end) {
					sent <- err
					return
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		sent <- nil
	}()
	for range 4 {
		time.Sleep(time.Duration(200+rand.IntN(600)) * time.Millisecond)
		restart()
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	restart()
	stored := func() []string {
		type execution struct {
			Question string `json:"question"`
		}
		all, _, err := api.List[execution](t.Context(), api.NewClient("http://"+address, ""), api.Path("books", "default", "executions"), nil, 0)
		if err != nil {
			return nil // nothing is stored yet, or the server starts
		}
		var questions []string
		for _, e := range all {
			questions = append(questions, e.Question)
		}
		slices.Sort(questions)
		return questions
	}
	kills := 0
	var got []string
	for end := time.Now().Add(3 * time.Minute); len(got) < traces && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got = stored()
		if len(got) > kills*traces/4 && kills < 3 { // in the middle of the reports
			restart()
			kills++
		}
	}
	time.Sleep(6 * time.Second) // two sweeps, for a second report
	got = stored()
	if distinct := len(slices.Compact(slices.Clone(got))); len(got) != traces || distinct != traces {
		t.Errorf("got %d executions of %d traces, want %d of each; killed %d times during the reports", len(got), distinct, traces, kills)
	}
	_ = server.Process.Kill()
	_ = server.Wait()
}

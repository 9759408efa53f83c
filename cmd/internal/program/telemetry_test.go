package program

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"debrief/cmd/internal/simulated"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/generator"
	"debrief/reflector"
)

// attr returns an attribute of a span as text, "" without one.
func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// TestOneTraceFromSubmissionToAppliedDelta follows tasks through the three roles. Some model calls fail.
func TestOneTraceFromSubmissionToAppliedDelta(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	_, nc := bustest.Open(t, bus.Policy{})
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	conn, err := bus.Open(t.Context(), nc, bus.Options{Tracer: provider.Tracer("test")})
	if err != nil {
		t.Fatal(err)
	}
	models := httptest.NewServer(simulated.Handler(simulated.Options{Seed: 1, FaultRate: 0.2}))
	defer models.Close()
	flags := Model{Model: simulated.Name, BaseURL: models.URL + "/v1", Timeout: 10 * time.Second, MaxConcurrent: 4}
	model, err := flags.Client(events.RoleGenerator)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error)
	go func() {
		done <- Run(ctx, conn, bustest.Must(generator.New(model, nil, generator.Config{})), bustest.Must(reflector.New(model, reflector.Config{})), bustest.Must(curator.New(model, curator.Config{})))
	}()

	const n = 12
	train, _ := simulated.GenerateTasks(1, n, 1)
	traces := make([]string, n)
	for i := range train {
		train[i].Book = "b"
		r, err := conn.Publish(t.Context(), &train[i], bus.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		traces[i] = r.Trace
	}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		eventually(t, role+" is idle", func() bool {
			l, err := conn.Consumers.Lag(t.Context(), role)
			return err == nil && l.Idle()
		})
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}

	all := spans.GetSpans()
	only := func(traceID, name string) tracetest.SpanStub {
		t.Helper()
		var found tracetest.SpanStubs
		for _, s := range all {
			if s.SpanContext.TraceID().String() == traceID && s.Name == name {
				found = append(found, s)
			}
		}
		if len(found) == 0 {
			t.Fatalf("trace %s has no span %q", traceID, name)
		}
		return found[len(found)-1]
	}
	below := func(s tracetest.SpanStub) (calls tracetest.SpanStubs) {
		for _, c := range all {
			if c.Parent.SpanID() == s.SpanContext.SpanID() && c.SpanKind == trace.SpanKindClient {
				calls = append(calls, c)
			}
		}
		return calls
	}
	byID := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range all {
		byID[s.SpanContext.SpanID()] = s
	}
	taught := slices.DeleteFunc(traces, func(id string) bool { // right answers teach nothing
		return !slices.ContainsFunc(all, func(s tracetest.SpanStub) bool {
			return s.Name == "curator reflection" && s.SpanContext.TraceID().String() == id
		})
	})
	if len(taught) < n/2 {
		t.Fatalf("%d of %d tasks came to the curator, want most of them", len(taught), n)
	}
	calls, failedAttempts := 0, 0
	for _, id := range taught {
		chain := []tracetest.SpanStub{only(id, "publish task"), only(id, "generator task"), only(id, "reflector execution"), only(id, "curator reflection")}
		for i, s := range chain[1:] {
			if s.Parent.SpanID() != chain[i].SpanContext.SpanID() {
				t.Errorf("trace %s: %s is not below %s", id, s.Name, chain[i].Name)
			}
			if attr(s, "debrief.disposition") != "ack" || attr(s, "debrief.book") != "b" || s.Status.Code != codes.Unset {
				t.Errorf("trace %s: %s: %v %v", id, s.Name, s.Attributes, s.Status)
			}
		}
		if len(below(chain[1])) == 0 {
			t.Errorf("trace %s: no model call below the generator's delivery", id)
		}
		for _, s := range chain[1:3] {
			for _, c := range below(s) {
				calls++
				failedAttempts += len(c.Events)
				if c.Name != "chat "+simulated.Name || attr(c, "gen_ai.request.model") != simulated.Name || attr(c, "gen_ai.usage.input_tokens") == "0" ||
					attr(c, "gen_ai.usage.output_tokens") == "" || attr(c, "debrief.attempts") != fmt.Sprint(1+len(c.Events)) {
					t.Errorf("model call %s: %v", c.Name, c.Attributes)
				}
			}
		}
		last := chain[3]
		if len(last.Links) != 1 || attr(last, "debrief.version") == "" {
			t.Fatalf("trace %s: the curator's delivery has %d links and the version %q, want its batch and a version", id, len(last.Links), attr(last, "debrief.version"))
		}
		batch := byID[last.Links[0].SpanContext.SpanID()]
		back := slices.ContainsFunc(batch.Links, func(l sdk.Link) bool { return l.SpanContext.SpanID() == last.SpanContext.SpanID() })
		commit := slices.ContainsFunc(all, func(s tracetest.SpanStub) bool {
			return s.Name == "commit" && s.Parent.SpanID() == batch.SpanContext.SpanID() && attr(s, "debrief.version") != ""
		})
		if batch.Name != "curator batch" || !back || !commit {
			t.Errorf("trace %s: batch %q, linked back: %t, with a commit: %t", id, batch.Name, back, commit)
		}
	}
	if calls < 2*len(taught) || failedAttempts == 0 {
		t.Errorf("got %d model calls with %d failed attempts, want at least %d, some failed", calls, failedAttempts, 2*len(taught))
	}
	for _, s := range all { // the beginning of a question, and an answer in a reflection
		for _, text := range []string{fmt.Sprint(s.Attributes), fmt.Sprint(s.Events), s.Status.Description} {
			if strings.Contains(text, "Invoice") || strings.Contains(text, "total") {
				t.Errorf("span %s holds what was said: %s", s.Name, text)
			}
		}
	}
}

func TestInvalidCollectorIsAnError(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"collector:4318", "ftp://collector", "http://", "http://ann:secret@collector:4318", "http://%zz"} {
		_, _, err := Telemetry{OTLP: url}.trace(t.Context(), "generator", Common{}.Logger())
		if ExitCode(err) != ExitUsage || !strings.HasPrefix(err.Error(), "--otlp: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want a refusal that names the flag and no secret", url, err)
		}
	}
	if ctx, flush, err := (Telemetry{}).trace(t.Context(), "generator", Common{}.Logger()); err != nil || tracer(ctx) != nil {
		t.Errorf("without a collector: got a tracer, or %v", err)
	} else {
		flush()
	}
}

// TestInvalidSettingsOfTheExporter is not parallel, because it sets environment variables.
func TestInvalidSettingsOfTheExporter(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, variable, value string }{
		{"header without a value", "HEADERS", "secret"},
		{"header without a name", "HEADERS", "a=1,=secret"},
		{"header with an invalid escape", "TRACES_HEADERS", "a=secret%zz"},
		{"certificate that is not PEM", "CERTIFICATE", text},
		{"certificate that does not exist", "CERTIFICATE", text + "-missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+test.variable, test.value)
			_, _, err := Telemetry{OTLP: "https://collector:4318"}.trace(t.Context(), "generator", Common{}.Logger())
			if ExitCode(err) != ExitUsage || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want a refusal without the value", err)
			}
		})
	}
}

// TestExporterSendsHeaders is not parallel, because it sets an environment variable.
func TestExporterSendsHeaders(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b")
	requests := make(chan *http.Request, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r }))
	defer collector.Close()
	ctx, flush, err := Telemetry{OTLP: collector.URL}.trace(t.Context(), "generator", Common{}.Logger())
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer(ctx).Start(ctx, "work")
	span.End()
	flush()
	if r := <-requests; r.URL.Path != "/v1/traces" || r.Header.Get("Api-Key") != "a b" {
		t.Errorf("got %s with %v, want a request to /v1/traces with the header", r.URL, r.Header)
	}
}

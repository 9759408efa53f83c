package otlp

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// reference is the OpenTelemetry project's transformation of spans.
type reference struct{ *tracepb.TracesData }

func (reference) Start(context.Context) error { return nil }
func (reference) Stop(context.Context) error  { return nil }
func (r reference) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	r.ResourceSpans = spans
	return nil
}

func spanContext(id byte, remote bool) trace.SpanContext {
	state, err := trace.ParseTraceState("vendor=x")
	if err != nil || remote {
		state = trace.TraceState{} // the reference leaves out the state of a link
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{id, 2}, SpanID: trace.SpanID{id, 3}, TraceFlags: 1, TraceState: state, Remote: remote})
}

// spans have every field and every type of attribute, also with default values.
func spans() []sdk.ReadOnlySpan {
	began := time.Date(2026, 11, 20, 12, 0, 0, 5, time.UTC)
	attributes := []attribute.KeyValue{
		attribute.String("text", "ü"), attribute.String("empty", ""), attribute.Bool("yes", true), attribute.Bool("no", false),
		attribute.Int("minus", -7), attribute.Int("zero", 0), attribute.Float64("half", .5), attribute.Float64("zero", 0),
		attribute.StringSlice("texts", []string{"a", ""}), attribute.BoolSlice("bools", []bool{false, true}),
		attribute.IntSlice("numbers", []int{0, 1 << 40}), attribute.Float64Slice("floats", []float64{-1}), attribute.StringSlice("none", nil),
		{Key: "bytes", Value: attribute.ByteSliceValue([]byte{0, 255})},
		{Key: "values", Value: attribute.SliceValue(attribute.IntValue(1), attribute.StringValue("b"))},
		{Key: "map", Value: attribute.MapValue(attribute.Int("one", 1))},
		{Key: "nothing"},
	}
	scope := instrumentation.Scope{Name: "debrief", Version: "1", SchemaURL: "https://example.com/scope", Attributes: attribute.NewSet(attribute.Int("n", 1))}
	about := resource.NewWithAttributes("https://example.com/resource", attribute.String("service.name", "s"))
	full := tracetest.SpanStub{
		Name: "all fields", SpanContext: spanContext(1, false), Parent: spanContext(9, true), SpanKind: trace.SpanKindConsumer,
		StartTime: began, EndTime: began.Add(time.Second), Attributes: attributes, DroppedAttributes: 3, DroppedEvents: 4, DroppedLinks: 5,
		Events:   []sdk.Event{{Name: "event", Attributes: attributes[:2], DroppedAttributeCount: 6, Time: began}, {}},
		Links:    []sdk.Link{{SpanContext: spanContext(7, true), Attributes: attributes[2:4], DroppedAttributeCount: 8}},
		Status:   sdk.Status{Code: codes.Error, Description: "it failed"},
		Resource: about, InstrumentationScope: scope,
	}
	all := tracetest.SpanStubs{full}
	for kind := trace.SpanKindUnspecified; kind <= trace.SpanKindConsumer; kind++ {
		all = append(all, tracetest.SpanStub{
			Name: kind.String(), SpanContext: spanContext(byte(20+kind), false), SpanKind: kind, Status: sdk.Status{Code: codes.Ok},
			StartTime: began, EndTime: began, Resource: about, InstrumentationScope: scope,
		})
	}
	return all.Snapshots()
}

func TestEncodeMatchesReference(t *testing.T) {
	t.Parallel()
	want := reference{new(tracepb.TracesData)}
	if err := otlptrace.NewUnstarted(want).ExportSpans(t.Context(), spans()); err != nil {
		t.Fatal(err)
	}
	got := new(tracepb.TracesData) // the same wire format as the request
	if err := proto.Unmarshal(encode(spans()), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.TracesData, got, protocmp.Transform()); diff != "" {
		t.Errorf("want(-), got(+):\n%s", diff)
	}
}

func TestEncodeGroupsSpansByScope(t *testing.T) {
	t.Parallel()
	var stubs tracetest.SpanStubs
	for _, scope := range []string{"a", "a", "b"} {
		stubs = append(stubs, tracetest.SpanStub{Name: "\xff", InstrumentationScope: instrumentation.Scope{Name: scope}, Resource: resource.Empty()})
	}
	got := new(tracepb.TracesData)
	if err := proto.Unmarshal(encode(stubs.Snapshots()), got); err != nil { // it fails for a string that is not UTF-8
		t.Fatal(err)
	}
	groups := got.ResourceSpans[0].ScopeSpans
	if len(groups) != 2 || len(groups[0].Spans) != 2 || len(groups[1].Spans) != 1 || groups[1].Scope.Name != "b" {
		t.Errorf("got %v, want two spans of a and one of b", groups)
	}
}

// collector answers requests in order and counts them.
type collector struct {
	responses []http.HandlerFunc
	requests  int
	last      *http.Request
	body      []byte
}

func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.last = r
	c.body, _ = io.ReadAll(r.Body)
	c.requests++
	if len(c.responses) > 0 {
		c.responses[0](w, r)
		c.responses = c.responses[1:]
	}
	return w.Result(), nil
}

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

func exporter(t *testing.T, c *collector, o Options) *Exporter {
	t.Helper()
	e, err := New(&url.URL{Scheme: "http", Host: "collector", Path: "/v1/traces"}, time.Second, o)
	if err != nil {
		t.Fatal(err)
	}
	e.client.Transport = c
	return e
}

func TestRequest(t *testing.T) {
	t.Parallel()
	c := new(collector)
	e := exporter(t, c, Options{Headers: "api-key=a%20b, tenant = t1,", Compression: "gzip"})
	if err := e.ExportSpans(t.Context(), spans()); err != nil {
		t.Fatal(err)
	}
	h := c.last.Header
	if c.last.URL.Path != "/v1/traces" || h.Get("Api-Key") != "a b" || h.Get("Tenant") != "t1" || h.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("got %s with %v", c.last.URL, h)
	}
	r, err := gzip.NewReader(strings.NewReader(string(c.body)))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r); err != nil || string(body) != string(encode(spans())) {
		t.Errorf("got %d bytes, %v, want the encoded spans", len(body), err)
	}
	c.requests = 0
	if err := e.ExportSpans(t.Context(), nil); err != nil || c.requests != 0 {
		t.Errorf("no spans: got %d requests, %v", c.requests, err)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		answers  []http.HandlerFunc
		requests int
		took     time.Duration
		ok       bool
	}{
		{"accepted", []http.HandlerFunc{status(200)}, 1, 0, true},
		{"busy twice", []http.HandlerFunc{status(503), status(429)}, 3, firstBackoff * 3, true},
		{"asks for more time", []http.HandlerFunc{status(503, "Retry-After", "9")}, 2, 9 * time.Second, true},
		{"invalid Retry-After", []http.HandlerFunc{status(502, "Retry-After", "soon")}, 2, firstBackoff, true},
		{"rejected", []http.HandlerFunc{status(400)}, 1, 0, false},
		{"too long a wait", []http.HandlerFunc{status(504, "Retry-After", "3600")}, 1, time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c := &collector{responses: tt.answers}
				began := time.Now()
				err := exporter(t, c, Options{}).ExportSpans(ctx, spans())
				if took := time.Since(began); c.requests != tt.requests || took != tt.took || (err == nil) != tt.ok {
					t.Errorf("got %d requests in %s, %v, want %d in %s", c.requests, took, err, tt.requests, tt.took)
				}
			})
		})
	}
}

func TestPartialSuccess(t *testing.T) {
	t.Parallel()
	partial := protowire.AppendVarint(protowire.AppendTag(nil, partialRejected, protowire.VarintType), 3)
	partial = protowire.AppendString(protowire.AppendTag(partial, partialWhy, protowire.BytesType), "too old")
	response := protowire.AppendBytes(protowire.AppendTag(nil, responsePartialSuccess, protowire.BytesType), partial)
	for _, tt := range []struct {
		name, body string
		want       string
	}{
		{"empty", "", ""},
		{"rejected spans", string(response), "3 spans: too old"},
		{"unknown field", string(protowire.AppendFixed32(protowire.AppendTag(nil, 9, protowire.Fixed32Type), 1)), ""},
		{"invalid", "\x0a\xff", "decode"},
	} {
		c := &collector{responses: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = io.WriteString(w, tt.body)
		}}}
		err := exporter(t, c, Options{}).ExportSpans(t.Context(), spans())
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestCertificateOfTheCollector(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(status(200))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, trusted := range map[string]bool{file: true, "": false} {
		e, err := New(to, 5*time.Second, Options{Certificate: name})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if err := e.ExportSpans(ctx, spans()); (err == nil) != trusted {
			t.Errorf("certificate %q: got %v", name, err)
		}
		cancel()
		_ = e.Shutdown(t.Context())
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{Headers: "secret"},
		{Headers: "a=1,=secret"},
		{Headers: "a=secret%zz"},
		{Certificate: text},
		{Certificate: text + "-missing"},
		{ClientKey: text},
		{ClientCertificate: text, ClientKey: text},
	} {
		if _, err := New(new(url.URL), time.Second, o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: got %v, want an error without the value", o, err)
		}
	}
	if _, err := New(new(url.URL), time.Second, Options{Certificate: text + "-missing"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing certificate: got %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=1")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=2")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	if got, want := Environment(), (Options{Headers: "a=2", Compression: "gzip"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

package integration

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"debrief/events"
)

// collector is an OTLP receiver over HTTP that records the spans.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
}

// span is a span with its service.
type span struct {
	service string
	*tracepb.Span
}

func startCollector(t *testing.T) *collector {
	c := new(collector)
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	data, err := io.ReadAll(body)
	request := new(tracepb.TracesData) // the same wire format as the request of the OTLP service
	if err = errors.Join(err, proto.Unmarshal(data, request)); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		service := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{service, s})
			}
		}
	}
}

// of returns the spans of a trace: the service by span name.
func (c *collector) of(traceID string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for _, s := range c.spans {
		if fmt.Sprintf("%x", s.TraceId) == traceID {
			all[s.Name] = s.service
		}
	}
	return all
}

// submitResult is the output of 'debrief submit --json'.
type submitResult struct {
	Trace  string        `json:"trace"`
	Handle events.Handle `json:"handle"`
}

func runSubmit(t *testing.T, url string, args ...string) (s submitResult) {
	t.Helper()
	cmd := exec.Command(program(t, "debrief"), append([]string{"submit", "--json", "--nats", url}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return s
}

// TestTraceOfATaskIsExported checks that all programs export spans of the same trace.
func TestTraceOfATaskIsExported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	c := startCollector(t)
	_, url := startServer(t)
	model := startModel(t, 0)
	var workers []*process
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		workers = append(workers, startWorker(t, role, role, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--otlp", c.URL))
	}
	// A task that gives an insight, because the first answer is wrong.
	task := invoices(rand.New(rand.NewPCG(1, 1)), 1)[0]
	got := runSubmit(t, url, "--otlp", c.URL, "--wait", "--target", task.Target, "--evaluator", task.Evaluator, task.Question)

	// An undecodable message with another trace, which the log must contain.
	const trace = "0af7651916cd43dd8448eb211c80319c"
	junk := &nats.Msg{Subject: events.KindTask.Subject("canary-book"), Data: []byte("canary payload"), Header: nats.Header{
		events.HeaderTrace: {"00-" + trace + "-b7ad6b7169203331-01"}, nats.MsgIdHdr: {"junk"}, events.HeaderSchema: {"1"},
	}}
	if _, err := connect(t, url).JetStream().PublishMsg(t.Context(), junk); err != nil {
		t.Fatal(err)
	}
	if got.Trace == "" {
		t.Fatal("trace not found in the output of submit")
	}
	eventually(t, 30*time.Second, "the dead letter", func() error {
		text, err := os.ReadFile(workers[0].log)
		if !strings.Contains(string(text), `"dead letter"`) {
			return errors.Join(err, errors.New("not in the log"))
		}
		return nil
	})
	eventually(t, 30*time.Second, "the curator has the reflection", func() error {
		lag, err := connect(t, url).Consumers.Lag(t.Context(), events.RoleCurator)
		if err == nil && (!lag.Idle() || lag.Floor == 0) {
			err = errors.New("not yet")
		}
		return err
	})
	for _, w := range workers { // exports the remaining spans
		if code, err := w.stop(); err != nil || code != 0 {
			t.Errorf("stop: exit code %d, %v", code, err)
		}
	}
	spans := c.of(got.Trace)
	for name, service := range map[string]string{
		"publish task": "debrief", "generator task": "debrief-generator", "reflector execution": "debrief-reflector",
		"curator reflection": "debrief-curator",
	} {
		if spans[name] != service {
			t.Errorf("trace %s: got %q from %q, want it from %q", got.Trace, name, spans[name], service)
		}
	}
	if c.of(trace)["generator task"] != "debrief-generator" {
		t.Errorf("trace %s: span of the undecodable message not found", trace)
	}
	expectNoContent(t, c, workers[0].log, trace)
}

// expectNoContent checks that spans and log contain no content of events, and that the log names the undecodable message.
func expectNoContent(t *testing.T, c *collector, log, trace string) {
	t.Helper()
	c.mu.Lock()
	for _, s := range c.spans {
		if text := s.Span.String(); strings.Contains(text, "canary payload") || strings.Contains(text, "clay pots") {
			t.Errorf("a span contains event content: %s", text)
		}
	}
	c.mu.Unlock()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "clay pots") || strings.Contains(string(text), "canary payload") {
		t.Errorf("the log contains event content: %s", text)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.Contains(line, `"dead letter"`) {
			continue
		}
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if l[events.LogTrace] != trace || l[events.LogEvent] != "junk" || l[events.LogBook] != "canary-book" || l[events.LogRole] != events.RoleGenerator {
			t.Errorf("got the line %s, want trace %s, event junk, book canary-book, role generator", line, trace)
		}
	}
}

// TestUnavailableCollectorDelaysNothing uses a collector that refuses connections, and one that accepts them without a reply.
func TestUnavailableCollectorDelaysNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	_, url := startServer(t)
	model := startModel(t, 0)
	refusing, hanging := "http://"+freeAddress(t), "http://"+silent.Addr().String()
	for _, away := range []string{refusing, hanging} {
		w := startWorker(t, "generator", "generator", "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--otlp", away)
		for range 3 {
			if got := runSubmit(t, url, "--otlp", away, "--wait", "Invoice 20417, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?"); got.Handle == "" || got.Trace == "" {
				t.Errorf("%s: got %+v, want an execution", away, got)
			}
		}
		if code, err := w.stop(); err != nil || code != 0 {
			t.Errorf("%s: stop: exit code %d, %v", away, code, err)
		}
	}
}

package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/chat"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var reports []events.Report
	var down error
	backend := &backend{
		context: func(r *events.ContextRequest) (*events.ContextReply, error) {
			if r.Query == "" {
				return nil, &refused{text: "query: required", invalid: true}
			}
			if down != nil {
				return nil, down
			}
			return &events.ContextReply{ID: "c-1", Book: r.Book, Messages: []chat.Message{{Speaker: chat.System, Text: "advice"}}}, nil
		},
		report: func(r *events.Report) (*events.StoredReply, error) {
			if down != nil {
				return nil, down
			}
			reports = append(reports, *r)
			return &events.StoredReply{Handle: "1-00000000"}, nil
		},
	}
	c := overNATS(t, backend)
	c.Book = "shelves"
	ctx := t.Context()

	run, err := c.Run(ctx, &events.ContextRequest{Query: "Where is the globe?", Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []chat.Message{{Speaker: chat.System, Text: "advice"}}; !cmp.Equal(run.Messages, want) || run.Degraded != nil || run.Context.Book != "shelves" {
		t.Errorf("a run: got messages %v, book %s, degraded %v; want those of the context", run.Messages, run.Context.Book, run.Degraded)
	}
	run.Tool("catalogue", map[string]string{"title": "globe"}, nil, errors.New("unknown field title"))
	run.Tool("catalogue", map[string]string{"item": "globe"}, "shelf 7", nil)
	if err := run.Report(ctx, errors.New("the model refused")); err != nil || run.Handle != "1-00000000" {
		t.Fatalf("report: got %v, handle %s", err, run.Handle)
	}
	got := reports[0]
	calls := []events.ToolCall{
		{Tool: "catalogue", Arguments: `{"title":"globe"}`, Output: "unknown field title", Outcome: events.Failure},
		{Tool: "catalogue", Arguments: `{"item":"globe"}`, Output: "shelf 7", Outcome: events.Success},
	}
	if got.ContextID != "c-1" || got.Book != "shelves" || got.RunID != "" || got.Session != "s" || got.Outcome.Label != events.Failure || got.Outcome.Feedback != "the model refused" {
		t.Errorf("the report of a failed run: got %+v", got)
	}
	if len(got.Steps) != 2 || !cmp.Equal(append(got.Steps[0].Calls, got.Steps[1].Calls...), calls) {
		t.Errorf("steps: got %+v, want one for each of %+v", got.Steps, calls)
	}

	if _, err := c.Run(ctx, &events.ContextRequest{}); err == nil || !strings.Contains(err.Error(), "query: required") {
		t.Errorf("a run without a query: got %v, want the refusal", err)
	}

	down = &refused{text: "busy", absent: true}
	run, err = c.Run(ctx, &events.ContextRequest{Query: "Where is the map?"})
	if err != nil || run.Degraded == nil {
		t.Fatalf("a run while the service is down: got %v, degraded %v", err, run.Degraded)
	}
	if want := []chat.Message{{Speaker: chat.User, Text: "Where is the map?"}}; !cmp.Equal(run.Messages, want) {
		t.Errorf("messages while the service is down: got %v, want %v", run.Messages, want)
	}
	down = nil
	for range 2 {
		if err := run.Report(ctx, nil); err != nil {
			t.Errorf("report after the service is back: got %v", err)
		}
	}
	if first, second := reports[1], reports[2]; first.RunID == "" || first.RunID != second.RunID || first.Book != "shelves" {
		t.Errorf("a run without a context, reported twice: got ids %q and %q in book %q, want one id, so that it counts once", first.RunID, second.RunID, first.Book)
	}
}

// TestRunWithAdviceOnly: the messages are only advice, so without Debrief there are none. The agent has the query.
func TestRunWithAdviceOnly(t *testing.T) {
	t.Parallel()
	run, err := HTTP("http://127.0.0.1:1", "").Run(t.Context(), &events.ContextRequest{Query: "q", Advice: true})
	if err != nil || run.Degraded == nil || len(run.Messages) > 0 {
		t.Errorf("got %+v, %v, want a run without messages", run, err)
	}
}

// TestRunBeginsInTime: a service that does not answer does not keep an agent waiting, and the report arrives later.
func TestRunBeginsInTime(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/contexts") {
			<-released
			return
		}
		_, _ = io.WriteString(w, `{"handle":"1-00000000"}`)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	started := time.Now()
	run, err := HTTP(server.URL, "").Run(t.Context(), &events.ContextRequest{Query: "Where is the map?"})
	if waited := time.Since(started); err != nil || run.Degraded == nil || waited < defaultAdviceTimeout || waited > replyTimeout/2 {
		t.Fatalf("got %v, degraded %v, after %s: want a run without advice after %s", err, run.Degraded, waited, defaultAdviceTimeout)
	}
	if err := run.Report(t.Context(), nil); err != nil || run.Handle != "1-00000000" {
		t.Errorf("report: got %v, handle %q", err, run.Handle)
	}
}

// TestSubAgent: the contexts of a run and its sub-agents name one run, and their reports are not copies of each other.
func TestSubAgent(t *testing.T) {
	t.Parallel()
	var contexts []events.ContextRequest
	var reports []events.Report
	c := overNATS(t, &backend{
		context: func(r *events.ContextRequest) (*events.ContextReply, error) {
			contexts = append(contexts, *r)
			return &events.ContextReply{ID: events.NewID()}, nil
		},
		report: func(r *events.Report) (*events.StoredReply, error) {
			reports = append(reports, *r)
			return &events.StoredReply{Handle: "1-00000000"}, nil
		},
	})
	for _, r := range []events.ContextRequest{{}, {Session: "s"}, {RunID: "r"}} {
		contexts, reports = nil, nil
		r.Query = "Where?"
		run, err := c.Run(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		sub, err := run.SubAgent(t.Context(), &events.ContextRequest{Query: "Search."})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []*Run{run, sub} {
			if err := run.Report(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		parent, child := contexts[0], contexts[1]
		named := r.RunID + r.Session
		if parent.RunID == "" || child.RunID != parent.RunID || child.Session != "" || named != "" && child.RunID != named {
			t.Errorf("%+v: got contexts of the runs %q and %q", r, parent.RunID, child.RunID)
		}
		if reports[0].RunID+reports[1].RunID != "" || reports[0].ContextID == reports[1].ContextID {
			t.Errorf("%+v: got reports %+v, want two runs, named by their contexts", r, reports)
		}
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("DEBRIEF_URL", "127.0.0.1:4280")
	if _, err := FromEnv(); err == nil || !strings.Contains(err.Error(), "DEBRIEF_URL") {
		t.Errorf("an address without a scheme: got %v, want an error that names the variable", err)
	}
	t.Setenv("DEBRIEF_URL", "https://debrief.example")
	t.Setenv("DEBRIEF_BOOK", "shelves")
	c, err := FromEnv()
	if err != nil || c.Book != "shelves" || c.transport.(*httpTransport).base != "https://debrief.example/api/v1/" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestClientLinksLittle keeps the client small for the programs of others.
func TestClientLinksLittle(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Fatalf("only %d packages: the list is not complete", len(packages))
	}
	for _, name := range packages {
		for _, heavy := range []string{"debrief/events/bus", "debrief/cmd/", "github.com/rs/zerolog", "go.opentelemetry.io/", "github.com/nats-io/nats-server/"} {
			if strings.HasPrefix(name, heavy) {
				t.Errorf("links %s", name)
			}
		}
	}
}

// hangingService is a transport to a service that never replies.
type hangingService struct{ requests int }

func (s *hangingService) send(ctx context.Context, m *message) ([]byte, error) {
	s.requests++
	<-ctx.Done()
	return nil, &Error{Verb: m.verb, Err: ctx.Err()}
}

// TestReportEndsInTime: a service that never replies is not asked three times, because the agent waits.
func TestReportEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := new(hangingService)
		c := &Client{transport: service, delay: defaultDelay}
		began := time.Now()
		_, err := c.Report(t.Context(), &events.Report{Question: "q"})
		if waited := time.Since(began); err == nil || service.requests != 1 || waited != replyTimeout {
			t.Errorf("got %v after %s and %d requests, want an error after %s and one", err, waited, service.requests, replyTimeout)
		}
	})
}

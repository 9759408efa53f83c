package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/service"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	goleak.VerifyTestMain(m)
}

// backend answers requests with the functions of a test.
type backend struct {
	context  func(*events.ContextRequest) (*events.ContextReply, error)
	report   func(*events.Report) (*events.StoredReply, error)
	feedback func(*events.FeedbackRequest) (*events.StoredReply, error)
}

func (b *backend) Context(_ context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	return b.context(r)
}

func (b *backend) Report(_ context.Context, r *events.Report) (*events.StoredReply, error) {
	return b.report(r)
}

func (b *backend) Feedback(_ context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	return b.feedback(r)
}

// overNATS serves a backend on an embedded server until the end of the test.
func overNATS(t *testing.T, b *backend) *Client {
	t.Helper()
	connect := bustest.Server(t)
	stop, err := service.Serve(connect(), b, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c := NATS(connect())
	c.delay, c.AdviceTimeout = time.Millisecond, time.Minute
	return c
}

// overHTTP serves a backend over HTTP until the end of the test. It shares only the paths with the API.
func overHTTP(t *testing.T, b *backend) *Client {
	t.Helper()
	h := service.NewHandler(b, zerolog.Nop())
	mux := http.NewServeMux()
	for verb, path := range map[string]string{events.VerbContext: "contexts", events.VerbReport: "executions", events.VerbFeedback: "feedback"} {
		mux.HandleFunc("POST /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write([]byte(`{"title":"Unauthorized","detail":"unknown token"}`))
				return
			}
			var body json.RawMessage
			_ = json.NewDecoder(r.Body).Decode(&body)
			a := h.Handle(r.Context(), verb, "", events.Caller{}, body)
			if a.Text != "" {
				w.Header().Set("Retry-After", a.RetryAfter())
				w.WriteHeader(a.Code)
				_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(a.Code), "detail": a.Text})
				return
			}
			_, _ = w.Write(a.Body)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c := HTTP(server.URL+"/", "secret")
	c.delay, c.AdviceTimeout = time.Millisecond, time.Minute
	t.Cleanup(c.transport.(*httpTransport).client.CloseIdleConnections)
	return c
}

type refused struct {
	text                  string
	invalid, gone, absent bool
}

func (e *refused) Error() string     { return e.text }
func (e *refused) Invalid() bool     { return e.invalid }
func (e *refused) NotFound() bool    { return e.gone }
func (e *refused) Unavailable() bool { return e.absent }

func TestClient(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *backend) *Client{"NATS": overNATS, "HTTP": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var report events.Report
			var feedback events.FeedbackRequest
			c := open(t, &backend{
				context: func(r *events.ContextRequest) (*events.ContextReply, error) {
					return &events.ContextReply{ID: "id", Book: r.Book, Session: r.Session}, nil
				},
				report: func(r *events.Report) (*events.StoredReply, error) {
					report = *r
					return &events.StoredReply{Handle: "1-00000000"}, nil
				},
				feedback: func(r *events.FeedbackRequest) (*events.StoredReply, error) {
					feedback = *r
					return &events.StoredReply{Duplicate: true}, nil
				},
			})
			ctx := t.Context()
			reply, err := c.Context(ctx, &events.ContextRequest{Book: "b", Session: "s", Query: "q"})
			if err != nil || reply.ID != "id" || reply.Book != "b" || reply.Session != "s" {
				t.Errorf("context: got %+v, %v", reply, err)
			}
			if _, err := c.Report(ctx, &events.Report{Book: "b", ContextID: "id", Answer: "a"}); err != nil || report.Answer != "a" || report.RunID != "" {
				t.Errorf("report: got %+v, %v", report, err)
			}
			stored, err := c.Report(ctx, &events.Report{Question: "q", Answer: "a"})
			if err != nil || report.RunID == "" || stored.Handle != "1-00000000" {
				t.Errorf("report without ids: got %+v, %+v, %v", report, stored, err)
			}
			stored, err = c.Feedback(ctx, &events.FeedbackRequest{Execution: "1-00000000", Outcome: events.Outcome{Label: events.Success}})
			if err != nil || feedback.ID == "" || feedback.Outcome.Label != events.Success || !stored.Duplicate {
				t.Errorf("feedback: got %+v, %+v, %v", feedback, stored, err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *backend) *Client{"NATS": overNATS, "HTTP": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			var ids []string
			var fail error
			failures := int32(1)
			c := open(t, &backend{report: func(r *events.Report) (*events.StoredReply, error) {
				ids = append(ids, r.RunID)
				if calls.Add(1) <= failures {
					return nil, fail
				}
				return &events.StoredReply{Handle: "2-00000000"}, nil
			}})
			for _, test := range []struct {
				name                      string
				err                       error
				failures, calls           int32 // failing calls; calls in all
				invalid, missing, passing bool
			}{
				{"invalid", &refused{text: "question: required", invalid: true}, 1, 1, true, false, false},
				{"not found", &refused{text: "context_id: unknown", gone: true}, 1, 1, false, true, false},
				{"unavailable, then stored", &refused{text: "busy", absent: true}, 2, 3, false, false, true},
				{"unavailable for too long", &refused{text: "busy", absent: true}, 3, 3, false, false, false},
				{"internal", errors.New("hidden"), 1, 1, false, false, false},
			} {
				calls.Store(0)
				ids, fail, failures = nil, test.err, test.failures
				stored, err := c.Report(t.Context(), &events.Report{Question: "q"})
				if (err == nil) != test.passing || calls.Load() != test.calls || test.passing && stored.Handle != "2-00000000" {
					t.Errorf("%s: got %+v, %v after %d calls", test.name, stored, err, calls.Load())
				}
				for _, id := range ids {
					if id == "" || id != ids[0] {
						t.Errorf("%s: got task ids %q, want one", test.name, ids)
					}
				}
				var failed *Error
				if err == nil {
					continue
				}
				if !errors.As(err, &failed) || failed.Invalid() != test.invalid || failed.NotFound() != test.missing {
					t.Errorf("%s: got %#v", test.name, err)
				}
				if _, isRefused := test.err.(*refused); isRefused != strings.Contains(err.Error(), test.err.Error()) {
					t.Errorf("%s: got %q", test.name, err)
				}
			}
		})
	}
}

func TestServiceIsAbsent(t *testing.T) {
	t.Parallel()
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	nc := bustest.Server(t)()
	for name, c := range map[string]*Client{"NATS": NATS(nc), "HTTP": HTTP(nobody.URL, "")} {
		c.delay = time.Millisecond
		_, err := c.Context(t.Context(), &events.ContextRequest{Query: "q"})
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != 0 || !failed.Unavailable() || !strings.Contains(err.Error(), "debrief up") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	large := &events.Report{Question: strings.Repeat("x", 2<<20)}
	var failed *Error
	if _, err := NATS(nc).Report(t.Context(), large); !errors.As(err, &failed) || failed.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("large report: got %v", err)
	}
	// The body alone is within the limit, but the message also has headers.
	body := make([]byte, nc.MaxPayload())
	if _, err := (natsTransport{nc}).send(t.Context(), &message{verb: events.VerbReport, trace: "t", body: body}); !errors.As(err, &failed) || failed.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("headers above the limit: got %v", err)
	}
	if _, err := NATS(nc).Context(t.Context(), &events.ContextRequest{Book: "a b", Query: "q"}); !errors.As(err, &failed) || !failed.Invalid() {
		t.Errorf("invalid book: got %v", err)
	}
}

func TestTokenIsMissing(t *testing.T) {
	t.Parallel()
	c := overHTTP(t, new(backend))
	c.transport.(*httpTransport).token = ""
	var failed *Error
	if _, err := c.Context(t.Context(), &events.ContextRequest{Query: "q"}); !errors.As(err, &failed) || failed.Code != http.StatusUnauthorized || !strings.Contains(err.Error(), "token") {
		t.Errorf("got %v", err)
	}
}

package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
)

// behaving is an error with all methods for classification, each of which may return false.
type behaving struct {
	text                           string
	invalid, notFound, unavailable bool
}

func (e *behaving) Error() string     { return e.text }
func (e *behaving) Invalid() bool     { return e.invalid }
func (e *behaving) NotFound() bool    { return e.notFound }
func (e *behaving) Unavailable() bool { return e.unavailable }

const secret = "nats://user:secret@10.0.0.7"

func TestStatusCodesOfErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		err   error
		code  int
		text  string // a part of the error: of its own text, or one word
		after string
	}{
		{"invalid", fmt.Errorf("serve: %w", &behaving{text: "query: is empty", invalid: true}), 400, "serve: query: is empty", ""},
		{"several lines", &behaving{text: errors.Join(errors.New("a: no"), errors.New("b: no")).Error() + "\r\nX-Forged: 1\x00", invalid: true}, 400, "a: no; b: no ; X-Forged: 1", ""},
		{"very long", &behaving{text: strings.Repeat("é", 10_000), invalid: true}, 400, strings.Repeat("é", 250) + "…", ""},
		{"not found", &behaving{text: "no execution 7-ab12cd34", notFound: true}, 404, "no execution 7-ab12cd34", ""},
		{"full", fmt.Errorf("publish: %w", &bus.FullError{Err: errors.New(secret)}), 503, "full", "5"},
		{"unavailable", &behaving{text: "the book is being read", unavailable: true}, 503, "the book is being read", ""},
		{"unavailable, says when", &chat.UnavailableError{Err: errors.New("busy"), After: 1500 * time.Millisecond}, 503, "model unavailable: busy", "2"},
		{"too late", fmt.Errorf("wait: %w", context.DeadlineExceeded), 504, "timeout", ""},
		{"given up", context.Canceled, 503, "canceled", ""},
		{"answers no to all", &behaving{text: secret}, 500, "internal error", ""},
		{"any other", errors.New(secret), 500, "internal error", ""},
		{"busy", ErrBusy, 503, "busy", "1"},
		{"too large", NewError(413, "the limit is 4194304 bytes"), 413, "4194304", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := ErrorResponse(test.err)
			if a.Code != test.code || !strings.Contains(a.Text, test.text) || strings.Contains(a.Text, secret) || a.RetryAfter() != test.after {
				t.Errorf("got %d, %q, again after %q; want %d, %q, %q", a.Code, a.Text, a.RetryAfter(), test.code, test.text, test.after)
			}
			var body events.ErrorReply
			if err := json.Unmarshal(a.Body, &body); err != nil || body.Error != a.Text {
				t.Errorf("got body %s (%v), want %q", a.Body, err, a.Text)
			}
		})
	}
}

func TestHandleCallsTheBackend(t *testing.T) {
	t.Parallel()
	h := NewHandler(backend{}, zerolog.Nop())
	for _, test := range []struct {
		name, verb, book, body string
		code                   int
		want                   string
	}{
		{"a context", events.VerbContext, "b", `{"query":"a < b?","min_version":17}`, 200, `{"book":"b","session":"a < b?","playbook_version":17,"messages":null,"shown":null,"manifest":{"assembly":"","limit":0,"tokens":0,"parts":null},"sha256":""}`},
		{"a report", events.VerbReport, "b", `{"answer":"x"}`, 200, `{"handle":"b/x"}`},
		{"feedback", events.VerbFeedback, "b", `{"execution":"17-ab12cd34"}`, 200, `{"handle":"17-ab12cd34"}`},
		{"an outcome that is a thumb", events.VerbReport, "b", `{"answer":"x","outcome":"👎"}`, 200, `{"handle":"b/x"}`},
		{"an unknown outcome", events.VerbReport, "b", `{"answer":"x","outcome":"purple"}`, 400, `success, partial or failure`},
		{"an unknown outcome in feedback", events.VerbFeedback, "b", `{"execution":"17-ab12cd34","outcome":7}`, 400, `outcome: `},
		{"a violation by an agent", events.VerbReport, "b", `{"answer":"x","outcome":{"violation":true}}`, 403, `outcome.violation: `},
		{"a violation in feedback of an agent", events.VerbFeedback, "b", `{"execution":"17-ab12cd34","outcome":{"score":0,"violation":true}}`, 403, `outcome.violation: `},
		{"an agent as a judge", events.VerbReport, "b", `{"answer":"x","outcome":{"score":1,"by":"judge/m/1"}}`, 403, `outcome.by: `},
		{"an agent as a judge in feedback", events.VerbFeedback, "b", `{"execution":"17-ab12cd34","outcome":{"score":0,"by":"judge/m/1"}}`, 403, `outcome.by: `},
		{"a typo in an outcome", events.VerbFeedback, "b", `{"execution":"17-ab12cd34","outcome":{"score":1,"labl":2}}`, 400, `field \"labl\"`},
		{"the book twice, the same", events.VerbReport, "b", `{"book":"b","answer":"x"}`, 200, `{"handle":"b/x"}`},
		{"the book in the body", events.VerbReport, "", `{"book":"c","answer":"x"}`, 200, `{"handle":"c/x"}`},
		{"no book: the backend knows that of the context", events.VerbReport, "", `{"answer":"x"}`, 200, `{"handle":"/x"}`},
		{"another book", events.VerbReport, "b", `{"book":"c"}`, 400, `{"error":"book: \"c\"`},
		{"no name of a book", events.VerbReport, "", `{"book":"../c"}`, 400, `{"error":"book \"../c\"`},
		{"no name of a book at the door", events.VerbReport, "é", `{}`, 400, `{"error":"book \"é\"`},
		{"a typo in a context", events.VerbContext, "b", `{"qery":"x"}`, 400, `field \"qery\"`},
		{"a typo in feedback", events.VerbFeedback, "b", `{"exe":"x"}`, 400, `field \"exe\"`},
		{"no such verb", "forget", "b", `{}`, 404, `\"forget\"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := h.Handle(t.Context(), test.verb, playbook.Book(test.book), events.Caller{}, []byte(test.body))
			if got := strings.TrimSpace(string(a.Body)); a.Code != test.code || a.Code == 200 && got != test.want || !json.Valid(a.Body) || !strings.Contains(got, test.want) {
				t.Errorf("got  %d %s\nwant %d %s", a.Code, got, test.code, test.want)
			}
		})
	}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	h := NewHandler(backend{}, zerolog.Nop())
	for verb, limit := range map[string]int{events.VerbContext: 4 << 20, events.VerbReport: 16 << 20, events.VerbFeedback: 1 << 20} {
		body := append([]byte(`{}`), bytes.Repeat([]byte(" "), limit-1)...)
		if a := h.Handle(t.Context(), verb, "b", events.Caller{}, body[:limit]); a.Code != 200 {
			t.Errorf("%s of %d bytes: got %d %s", verb, limit, a.Code, a.Text)
		}
		if a := h.Handle(t.Context(), verb, "b", events.Caller{}, body); a.Code != 413 || !strings.Contains(a.Text, fmt.Sprint(limit)) {
			t.Errorf("%s of one more: got %d %s", verb, a.Code, a.Text)
		}
	}
}

func TestPanicFailsOneRequest(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := NewHandler(backend{report: func(_ context.Context, r *events.Report) (*events.StoredReply, error) {
		panic("cannot take " + r.Answer)
	}}, zerolog.New(&log))
	a := h.Handle(t.Context(), events.VerbReport, "b", events.Caller{}, []byte(`{"answer":"a secret"}`))
	if a.Code != 500 || strings.Contains(string(a.Body), "secret") {
		t.Errorf("got %d %s", a.Code, a.Body)
	}
	if got := log.String(); !strings.Contains(got, "handler_test.go") || strings.Contains(got, "secret") {
		t.Errorf("want a log with the place and without the body, got %s", got)
	}
	if a := h.Handle(t.Context(), events.VerbFeedback, "b", events.Caller{}, []byte(`{"execution":"1-ab12cd34"}`)); a.Code != 200 {
		t.Errorf("the next request got %d", a.Code)
	}
}

func TestReplyThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	h := NewHandler(backend{context: func(context.Context, *events.ContextRequest) (*events.ContextReply, error) {
		return &events.ContextReply{Scores: []events.BulletScore{{Total: math.NaN()}}}, nil
	}}, zerolog.Nop())
	if a := h.Handle(t.Context(), events.VerbContext, "b", events.Caller{}, []byte(`{"query":"q"}`)); a.Code != 500 || !json.Valid(a.Body) {
		t.Errorf("got %d %s", a.Code, a.Body)
	}
}

func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHandler(backend{report: func(ctx context.Context, _ *events.Report) (*events.StoredReply, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("publish: %w", ctx.Err())
		}}, zerolog.Nop())
		began := time.Now()
		a := h.Handle(t.Context(), events.VerbReport, "b", events.Caller{}, []byte(`{}`))
		if took := time.Since(began); a.Code != 504 || took != 10*time.Second {
			t.Errorf("got %d after %s, want 504 after 10s", a.Code, took)
		}
	})
}

func TestHandlerRejectsTooManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := NewHandler(backend{report: func(context.Context, *events.Report) (*events.StoredReply, error) {
			<-release
			return &events.StoredReply{}, nil
		}}, zerolog.Nop())
		codes := make(chan int, maxInFlight)
		for range maxInFlight {
			go func() { codes <- h.Handle(t.Context(), events.VerbReport, "b", events.Caller{}, []byte(`{}`)).Code }()
		}
		synctest.Wait()
		if a := h.Handle(t.Context(), events.VerbReport, "b", events.Caller{}, []byte(`{}`)); a.Code != 503 || a.RetryAfter() != "1" {
			t.Errorf("got %d, again after %q, want 503 and a second", a.Code, a.RetryAfter())
		}
		close(release)
		for range maxInFlight {
			if code := <-codes; code != 200 {
				t.Errorf("got %d for an accepted request", code)
			}
		}
		if a := h.Handle(t.Context(), events.VerbReport, "b", events.Caller{}, []byte(`{}`)); a.Code != 200 {
			t.Errorf("got %d when all were done", a.Code)
		}
	})
}

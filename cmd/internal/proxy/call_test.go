package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"debrief/cmd/internal/runs/modelapi"
)

// nothing is a Middleware that changes nothing.
func nothing(context.Context, *Call) (*Edit, error) { return nil, nil }

// record is a Recorder. It sends itself to done at the end.
type record struct {
	status int
	header http.Header
	strings.Builder
	err    error
	panics string // method that panics
	done   chan *record
}

func (r *record) Start(_ context.Context, status int, header http.Header) Copy {
	r.status, r.header = status, header.Clone()
	r.panic("Start")
	return r
}

func (r *record) Degraded() string { return "" }

func (r *record) Write(p []byte) (int, error) {
	r.panic("Write")
	return r.Builder.Write(p)
}

func (r *record) Ended() bool { return strings.Contains(r.String(), "[DONE]") }

func (r *record) Hold() bool { return false }

func (r *record) End(_ context.Context, err error) {
	r.err = err
	defer func() { r.done <- r }()
	r.panic("End")
}

func (r *record) panic(method string) {
	if r.panics == method {
		panic(method)
	}
}

// echo answers with the body of the request, and cuts the response if the body contains "cut".
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Encodings", strings.Join(r.Header["Accept-Encoding"], "|"))
	_, _ = w.Write(body)
	if strings.Contains(string(body), "cut") {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// TestEdits: the upstream gets the edited request, the client the response, and the recorder a copy.
func TestEdits(t *testing.T) {
	t.Parallel()
	url := upstream(t, echo)
	calls, done := make(chan *Call, 1), make(chan *record, 1)
	edit := func(_ context.Context, c *Call) (*Edit, error) {
		calls <- c
		return &Edit{
			Body: []byte(string(c.Body) + " with bullets"), Header: http.Header{"X-Debrief-Context": {"c1"}},
			Recorder: &record{done: done},
		}, nil
	}
	s, c := open(t, url, gatewayOptions{Middleware: middleware(edit), Mode: ModeTail})
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		api                      modelapi.API // "" passes unchanged
	}{
		{"chat", "POST", "/v1/chat/completions", "a", []string{"Authorization", "Bearer k"}, modelapi.Chat},
		{"responses", "POST", "/v1/responses", "a", []string{headerMode, "Observe"}, modelapi.Responses},
		{"messages", "POST", "/v1/messages", "a", nil, modelapi.Messages},
		{"messages of another book", "POST", "/books/sales/anthropic/v1/messages", "a", nil, modelapi.Messages},
		{"empty body", "POST", "/v1/messages", "", nil, modelapi.Messages},
		{"off", "POST", "/v1/messages", "a", []string{headerMode, "off"}, ""},
		{"another path", "POST", "/v1/messages/count_tokens", "a", nil, ""},
		{"another method", "PUT", "/v1/messages", "a", nil, ""},
		{"embeddings", "POST", "/v1/embeddings", "a", nil, ""},
	} {
		res, body := do(t, c, test.method, s.URL()+test.path, test.body, test.header...)
		if test.api == "" {
			if body != test.body || res.Header.Get("X-Debrief-Context") != "" || len(calls) > 0 {
				t.Errorf("%s: got %q, %v", test.name, body, res.Header)
			}
			continue
		}
		call, rec := <-calls, <-done
		if call.API != test.api || string(call.Body) != test.body || call.Caller.Owner != "" || call.Book == "default" == strings.HasPrefix(test.path, "/books") {
			t.Errorf("%s: got call %+v", test.name, call)
		}
		if mode := call.Header.Get(headerMode); call.Mode != ModeTail && mode == "" || call.Mode == ModeTail && mode != "" {
			t.Errorf("%s: got mode %s", test.name, call.Mode)
		}
		if body != test.body+" with bullets" || res.Header.Get("X-Debrief-Context") != "c1" || res.Header.Get(headerDegraded) != "" {
			t.Errorf("%s: got %q, %v", test.name, body, res.Header)
		}
		if rec.String() != body || rec.status != 200 || rec.err != nil {
			t.Errorf("%s: recorded %d %q, %v", test.name, rec.status, rec.String(), rec.err)
		}
	}
}

// TestDegradedCalls: whatever the Middleware does, the client gets the response of the upstream.
func TestDegradedCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	url := upstream(t, echo)
	large := strings.Repeat("x", maxBody+1)
	seen := make(chan Observation, 1)
	for _, test := range []struct {
		name       string
		middleware middleware
		body       string
		header     []string
		degraded   string
	}{
		{"nothing to do", nothing, "a", nil, ""},
		{"error", func(context.Context, *Call) (*Edit, error) { return &Edit{Body: []byte("x")}, errors.New("secret") }, "a", nil, "unavailable"},
		{"deadline", func(ctx context.Context, _ *Call) (*Edit, error) { <-ctx.Done(); return nil, ctx.Err() }, "a", nil, "deadline"},
		{"panic", func(context.Context, *Call) (*Edit, error) { panic("secret") }, "a", nil, "unavailable"},
		{"incomplete", func(context.Context, *Call) (*Edit, error) { return &Edit{Degraded: "no-context"}, nil }, "a", nil, "no-context"},
		{"compressed", edits, gzipped("{}"), []string{"Content-Encoding", "gzip"}, "encoding"},
		{"not compressed", nothing, "a", []string{"Content-Encoding", "identity"}, ""},
		{"too large", edits, large, nil, "body_size"},
		{"too large, unknown length", edits, large, []string{"unknown", ""}, "body_size"},
		{"no memory", edits, large[:1<<20+1], nil, "memory"},
	} {
		o := gatewayOptions{Middleware: test.middleware, Mode: ModeTail, Observe: func(o Observation) { seen <- o }}
		if test.name == "no memory" {
			o.Memory = 1 << 20
		}
		s, c := open(t, url, o)
		r, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/v1/responses", strings.NewReader(test.body))
		for i := 0; i < len(test.header); i += 2 {
			if test.header[i] == "unknown" {
				r.ContentLength = -1
				continue
			}
			r.Header.Set(test.header[i], test.header[i+1])
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		text := res.Header.Get(headerDegraded)
		if err != nil || res.StatusCode != 200 || hash(string(body)) != hash(test.body) || (text == "") != (test.degraded == "") || strings.Contains(text, "secret") {
			t.Errorf("%s: got %d, %d bytes, %v, %q", test.name, res.StatusCode, len(body), err, text)
		}
		if o := <-seen; o.Degraded != test.degraded || o.Error != "" {
			t.Errorf("%s: got %+v", test.name, o)
		}
		if held := s.gateway.memory.InUse(); held != 0 {
			t.Errorf("%s: %d bytes are still counted", test.name, held)
		}
	}
}

func edits(context.Context, *Call) (*Edit, error) { return &Edit{Body: []byte("edited")}, nil }

// TestFailedResponses: the recorder learns that a response is not complete, and its panics do not reach the client.
func TestFailedResponses(t *testing.T) {
	t.Parallel()
	working := upstream(t, echo)
	for _, test := range []struct {
		name, url, body, panics string
		status                  int
		recorded                string
		failed                  bool
	}{
		{"complete", working, "a", "", 200, "a", false},
		{"cut", working, "cut", "", 200, "cut", true},
		{"unreachable", "http://127.0.0.1:1", "a", "", 0, "", true},
		{"panic in Start", working, "a", "Start", 200, "", false},
		{"panic in Write", working, "a", "Write", 200, "", false},
		{"panic in End", working, "a", "End", 200, "a", false},
	} {
		done := make(chan *record, 1)
		observe := func(context.Context, *Call) (*Edit, error) {
			return &Edit{Recorder: &record{done: done, panics: test.panics}}, nil
		}
		s, c := open(t, test.url, gatewayOptions{Middleware: middleware(observe), Mode: ModeObserve})
		res, err := c.Post(s.URL()+"/v1/messages", "application/json", strings.NewReader(test.body))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		rec := <-done
		if rec.status != test.status || rec.String() != test.recorded || (rec.err != nil) != test.failed {
			t.Errorf("%s: recorded %d %q, %v", test.name, rec.status, rec.String(), rec.err)
		}
		if test.status == 200 && string(body) != test.body || test.status == 0 && res.StatusCode != 502 {
			t.Errorf("%s: got %d %s", test.name, res.StatusCode, body)
		}
	}
}

// slowRecorder stores a call when the test permits it.
type slowRecorder struct {
	record
	stored, permit chan struct{}
	holds          int // of Hold that return true
}

func (r *slowRecorder) Hold() bool {
	r.holds--
	return r.holds >= 0
}

func (r *slowRecorder) Start(context.Context, int, http.Header) Copy { return r }

func (r *slowRecorder) End(context.Context, error) {
	close(r.stored)
	<-r.permit
}

// TestEndIsStoredBeforeTheClientHasIt: the client receives everything but the end of a response before the call is stored. The
// end follows when it is stored, or after the deadline.
func TestEndIsStoredBeforeTheClientHasIt(t *testing.T) {
	t.Parallel()
	const first, last = "data: first\n\n", "data: [DONE]\n\n"
	for _, test := range []struct {
		name     string
		declared bool // the response has a Content-Length, and no end marker
		hang     bool // the upstream does not end the response after the marker
		deadline time.Duration
	}{
		{"length", true, false, patience},
		{"end marker", false, true, patience},
		{"end of the body", false, false, patience},
		{"deadline", true, false, time.Millisecond},
		{"held", true, false, 2 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			received := make(chan struct{})
			url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				end := last
				if !test.hang {
					end = "data: last\n\n"
				}
				if test.declared {
					w.Header().Set("Content-Length", strconv.Itoa(len(first+end)))
				}
				_, _ = io.WriteString(w, first)
				_ = http.NewResponseController(w).Flush()
				<-received
				_, _ = io.WriteString(w, end)
				_ = http.NewResponseController(w).Flush()
				if test.hang {
					<-r.Context().Done()
				}
			})
			rec := &slowRecorder{stored: make(chan struct{}), permit: make(chan struct{}), holds: 3}
			if test.name == "held" {
				rec.holds = 1 << 30
			}
			begin := func(context.Context, *Call) (*Edit, error) { return &Edit{Recorder: rec}, nil }
			s, c := open(t, url, gatewayOptions{Middleware: middleware(begin), Mode: ModeObserve, Deadline: test.deadline})
			res, err := c.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			begun := make([]byte, len(first))
			if _, err := io.ReadFull(res.Body, begun); err != nil || string(begun) != first {
				t.Fatalf("got %q, %v", begun, err)
			}
			close(received)
			<-rec.stored
			ended := make(chan string)
			go func() {
				rest := make([]byte, 100)
				n, _ := io.ReadAtLeast(res.Body, rest, len(last))
				if !test.hang {
					more, _ := io.ReadAll(res.Body)
					rest = append(rest[:n], more...)
					n = len(rest)
				}
				ended <- string(rest[:n])
			}()
			if test.name != "deadline" {
				select {
				case got := <-ended:
					close(rec.permit)
					t.Fatalf("got %q before the call is stored", got)
				case <-time.After(50 * time.Millisecond):
				}
				close(rec.permit)
			} else {
				defer close(rec.permit)
			}
			if got := <-ended; !strings.HasPrefix(got, "data: ") {
				t.Errorf("got the end %q", got)
			}
		})
	}
}

// TestReadableEncodings: with a recorder, the upstream may only answer in encodings that the recorder can read.
func TestReadableEncodings(t *testing.T) {
	t.Parallel()
	done := make(chan *record, 1)
	observe := func(context.Context, *Call) (*Edit, error) { return &Edit{Recorder: &record{done: done}}, nil }
	s, c := open(t, upstream(t, echo), gatewayOptions{Middleware: middleware(observe), Mode: ModeObserve})
	for sent, want := range map[string]string{
		"": "", "gzip": "gzip", "br, gzip;q=0.8, zstd": "gzip;q=0.8", "br": "identity", "*": "identity", "GZIP,identity": "GZIP, identity",
	} {
		var header []string
		if sent != "" {
			header = []string{"Accept-Encoding", sent}
		}
		res, _ := do(t, c, "POST", s.URL()+"/v1/messages", "a", header...)
		<-done
		if got := res.Header.Get("X-Encodings"); got != want {
			t.Errorf("%q: upstream got %q, want %q", sent, got, want)
		}
	}
}

// lateRecorder fails to store a call during its response.
type lateRecorder struct {
	record
	ended atomic.Bool
}

func (r *lateRecorder) Degraded() string {
	if r.ended.Load() {
		return notStored
	}
	return ""
}

func (r *lateRecorder) End(context.Context, error) { r.ended.Store(true) }

// TestLateFailureIsCounted: a call that fails to be stored after its response has begun is counted as not captured.
func TestLateFailureIsCounted(t *testing.T) {
	t.Parallel()
	observed := make(chan Observation, 1)
	begin := func(context.Context, *Call) (*Edit, error) { return &Edit{Recorder: &lateRecorder{}}, nil }
	s, c := open(t, upstream(t, echo), gatewayOptions{Middleware: middleware(begin), Mode: ModeObserve, Observe: func(o Observation) { observed <- o }})
	if _, body := do(t, c, "POST", s.URL()+"/v1/messages", "a"); body != "a" {
		t.Errorf("got %q", body)
	}
	if o := <-observed; o.Uncaptured != notStored {
		t.Errorf("got the reason %q, want %s", o.Uncaptured, notStored)
	}
}

// slowStore has not stored the beginning of a call.
type slowStore struct {
	replyStore
	waited bool
}

func (s *slowStore) Wait(context.Context) error {
	s.waited = true
	return nil
}

func (s *slowStore) Failed() error { return nil }

// TestStreamBeginsBeforeItsCallIsStored: only the headers of other responses wait.
func TestStreamBeginsBeforeItsCallIsStored(t *testing.T) {
	t.Parallel()
	for contentType, waits := range map[string]bool{"application/json": true, "text/event-stream": false, "text/event-stream; charset=utf-8": false} {
		s := &slowStore{}
		r := recorder{api: modelapi.Chat, store: s}
		r.Start(t.Context(), 200, http.Header{"Content-Type": {contentType}})
		if s.waited != waits || r.Degraded() != "" {
			t.Errorf("%s: waited %t, want %t", contentType, s.waited, waits)
		}
	}
}

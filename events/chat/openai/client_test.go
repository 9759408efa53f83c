package openai

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/events/chat"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	simulate(t, Config{InputPrice: 2, OutputPrice: 8}, []http.HandlerFunc{answer("Hi.")}, func(t *testing.T, c *Client, f *fake) {
		got, err := ask(t.Context(), c)
		want := chat.Reply{Text: "Hi.", Model: "test-model-1", Finish: "stop", Usage: chat.Usage{Calls: 1, InputTokens: 10, OutputTokens: 5, Cost: 60e-6}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("error %v, -want +got:\n%s", err, diff)
		}
		r := f.seen()[0]
		if r.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+testKey || r.Header.Get("X-Stainless-Retry-Count") != "0" {
			t.Errorf("got path %s, header %v", r.Path, r.Header)
		}
		if got, want := r.field(t, "messages"), `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello?"}]`; got != want {
			t.Errorf("got messages %s, want %s", got, want)
		}
	})
}

// The results of the attempts decide about retries, and about the result of the call if all attempts have the same
// result.
func TestCallErrors(t *testing.T) {
	t.Parallel()
	page := "<!DOCTYPE html><html><title>Bad gateway</title></html>"
	for _, tt := range []struct {
		name   string
		reply  http.HandlerFunc
		tries  int
		kind   failureKind
		status int
		text   string // a part of the error: of the server's text, or the name of a field
	}{
		{"408 request timeout", status(408, ``), 3, down, 408, ""},
		{"409 conflict", status(409, `{"error":{"message":"Locked."}}`), 3, busy, 409, "Locked."},
		{"429 too many requests", status(429, `{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}`), 3, busy, 429, "Slow down."},
		{"429 about a quota in words only", status(429, `[{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED"}}]`), 3, busy, 429, "You exceeded"},
		{"429 insufficient quota", status(429, `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":"insufficient_quota"}}`), 1, misconfigured, 429, ""},
		{"429 for a prompt over the rate", status(429, `{"error":{"message":"Request too large for gpt-4 on tokens per min (TPM): Limit 10000, Requested 12000.","code":"rate_limit_exceeded"}}`), 1, tooLong, 429, "Limit 10000"},
		{"500", status(500, `{"error":{"message":"Oops."}}`), 3, down, 500, "Oops."},
		{"502 with a page of HTML", status(502, page), 3, down, 502, "BaseURL"},
		{"503 without a body", status(503, ``), 3, down, 503, ""},
		{"an error that is a text", status(500, `{"error":"model is loading"}`), 3, down, 500, "model is loading"},
		{"an error that is a list of texts", status(400, `{"error":{"message":["one","two"]}}`), 1, refused, 400, "one"},
		{"an error without a wrapper", status(422, `{"detail":[{"msg":"field required"}]}`), 1, refused, 422, "field required"},
		{"an error body that is cut", cut(500, `{"error":{"message":"Oo`), 3, down, 500, ""},

		{"200 with a page of HTML", status(200, page), 3, down, 200, "BaseURL"},
		{"200 with an empty object", status(200, `{}`), 3, down, 200, ""},
		{"200 with an error that is a text", status(200, `{"error":"model is loading"}`), 3, down, 200, "model is loading"},
		{"200 with an error that is an object", status(200, `{"error":{"message":"upstream died","code":502}}`), 3, down, 200, "upstream died"},
		{"200 with a cut body", cut(200, `{"choices":[{"message":{"content":"private`), 3, down, 200, ""},
		{"200 with nothing", status(200, ``), 3, down, 200, ""},
		{"200 without end", endless(200), 3, down, 200, ""},
		{"an error without end", endless(500), 3, down, 500, ""},
		{"a connection that is cut", hangUp, 3, down, 0, ""},
		{"no answer", silence, 2, down, 0, "1m0s: if the model is slow, raise Timeout"},
		{"an answer that stalls", stall, 2, down, 200, "1m0s"},

		{"400", status(400, `{"error":{"message":"messages: bad role","param":"messages"}}`), 1, refused, 400, "bad role"},
		{"400 context length by code", status(400, `{"error":{"message":"Too big.","code":"context_length_exceeded"}}`), 1, tooLong, 400, "Too big."},
		{"400 context length in vLLM's words", status(400, `{"message":"This model's maximum context length is 8192 tokens.","code":400}`), 1, tooLong, 400, "8192"},
		{"400 context size in llama.cpp's words", status(400, `{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), 1, tooLong, 400, "available"},
		{"413", status(413, page), 1, tooLong, 413, ""},
		{"400 for a wrong key", status(400, `{"error":{"message":"API key not valid. Please pass a valid API key."}}`), 1, misconfigured, 400, "APIKey"},
		{"401", status(401, `{"error":{"message":"Incorrect API key provided: `+testKey+`."}}`), 1, misconfigured, 401, "APIKey"},
		{"402", status(402, `{"error":{"message":"Insufficient Balance"}}`), 1, misconfigured, 402, ""},
		{"403", status(403, ``), 1, misconfigured, 403, `"test-model"`},
		{"404", status(404, `{"error":{"message":"no such model","code":"model_not_found"}}`), 1, misconfigured, 404, "BaseURL"},
		{"400 for an unknown model", status(400, `{"error":{"message":"no such model","code":"model_not_found"}}`), 1, misconfigured, 400, "Model"},
		{"400 for an unknown model in words only", status(400, `{"error":{"message":"test-model is not a valid model ID","code":400}}`), 1, misconfigured, 400, "BaseURL"},
		{"400 for an unknown model in quotes", status(400, `{"error":"The model 'test-model' does not exist"}`), 1, misconfigured, 400, "BaseURL"},
		{"400 about a message that names a model", status(400, `{"error":"messages: the model role is unknown"}`), 1, refused, 400, "role"},
		{"a redirect", status(301, ``, "Location: https://elsewhere.test/v1"), 1, misconfigured, 301, `"https://elsewhere.test/v1"`},
		{"a redirect with a whole answer", redirectedAnswer, 1, misconfigured, 307, "BaseURL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Attempts: 3}
			simulate(t, cfg, []http.HandlerFunc{tt.reply}, func(t *testing.T, c *Client, f *fake) {
				_, err := ask(t.Context(), c)
				seen := f.seen()
				if len(seen) != tt.tries {
					t.Errorf("got %d requests, want %d", len(seen), tt.tries)
				}
				for i, r := range seen {
					if got := r.Header.Get("X-Stainless-Retry-Count"); got != string(rune('0'+i)) {
						t.Errorf("request %d: got attempt %s", i, got)
					}
				}
				checkError(t, err, tt.kind, tt.status)
				if !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q, want it to contain %q", err, tt.text)
				}
				if strings.Contains(err.Error(), testKey) || strings.Contains(err.Error(), "private") || len(err.Error()) > 600 {
					t.Errorf("got %q, want neither key nor answer, and not a book", err)
				}
				if healthy := c.Healthy() == nil; healthy == (tt.kind != tooLong && tt.kind != refused) {
					t.Errorf("got health %v after kind %d", c.Healthy(), tt.kind)
				}
				f.speak(answer("Hi."))
				if _, err := ask(t.Context(), c); err != nil || c.Healthy() != nil {
					t.Errorf("after a good answer: got error %v, health %v", err, c.Healthy())
				}
			})
		})
	}
}

// checkError fails the test unless err is an *Error of this kind and status, and has the methods that belong to the kind.
func checkError(t *testing.T, err error, k failureKind, status int) {
	t.Helper()
	want := map[failureKind]string{tooLong: "too long", refused: "refused"}[k]
	if want == "" {
		want = "unavailable"
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.kind != k || e.Status != status || verdict(err) != want {
		t.Fatalf("got %s (%#v), want %s of kind %d with status %d", verdict(err), e, want, k, status)
	}
	if u, ok := errors.AsType[*chat.UnavailableError](err); ok && u.Misconfigured() != (k == misconfigured) {
		t.Errorf("got %#v after kind %d, want it permanent only if the server refuses every request", u, k)
	}
}

// A server that was never reachable is not tried again at once, and counts as misconfigured after its time to start.
func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c, err := New(Config{BaseURL: "http://" + address + "/v1", Model: "m", Attempts: 2, Backoff: time.Millisecond, FieldName: func(f string) string { return "--" + f }})
	if err != nil {
		t.Fatal(err)
	}
	permanent := func() bool {
		t.Helper()
		_, err := ask(t.Context(), c)
		u, ok := errors.AsType[*chat.UnavailableError](err)
		if !ok || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "--BaseURL") {
			t.Fatalf("got %v, want the address and its setting", err)
		}
		return u.Permanent
	}
	if permanent() || c.Stats().Requests != 1 {
		t.Errorf("first call: got a permanent error or %d requests, want a temporary one after 1", c.Stats().Requests)
	}
	past := time.Now().Add(-2 * startTime)
	c.firstUnreached.Store(&past)
	if !permanent() {
		t.Error("after the time to start: got a temporary error, want a permanent one")
	}
	c.reached.Store(true)
	if permanent() {
		t.Error("after an answer: got a permanent error, want a temporary one")
	}
}

func verdict(err error) string {
	var steer interface{ Unavailable() bool }
	var shrink interface{ TooLong() bool }
	var e *Error
	switch {
	case errors.As(err, &steer):
		return "unavailable"
	case errors.As(err, &shrink):
		return "too long"
	case errors.As(err, &e):
		return "refused"
	}
	return "something else"
}

func redirectedAnswer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", "/v2")
	w.WriteHeader(http.StatusTemporaryRedirect)
	answer("Hi.")(w, r)
}

// endless sends up to 100 MB.
func endless(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"`)
		for block := strings.Repeat("x", 1<<20); ; {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	}
}

func stall(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `{"choices":[`)
	_ = http.NewResponseController(w).Flush()
	silence(w, r)
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestEndlessErrorBodyIsTruncated(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	reply := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		total := 0
		for block := strings.Repeat("x", 4<<10); total < 100<<20; {
			n, err := io.WriteString(w, block)
			if total += n; err != nil {
				break
			}
		}
		sent <- total
	}
	simulate(t, Config{}, []http.HandlerFunc{reply}, func(t *testing.T, c *Client, _ *fake) {
		if _, err := ask(t.Context(), c); err == nil {
			t.Fatal("got no error")
		}
		// The pipe has no buffer, so only the buffers of both sides are filled beyond the limit.
		if got := <-sent; got > maxErrorBody+64<<10 {
			t.Errorf("got %d bytes through, want at most %d and some buffers", got, maxErrorBody)
		}
	})
}

func TestCancelledCallReturnsContextError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		cfg   Config
		reply http.HandlerFunc
	}{
		{"during an answer", Config{}, silence},
		{"during a pause", Config{}, status(503, ``, "Retry-After: 20")},
		{"during the wait for others", Config{MaxConcurrent: 1}, silence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, tt.cfg, []http.HandlerFunc{tt.reply}, func(t *testing.T, c *Client, _ *fake) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				errs := make(chan error, 2)
				for range 2 {
					go func() { _, err := ask(ctx, c); errs <- err }()
				}
				var last error
				for range 2 {
					if err := <-errs; err != nil {
						last = err
					}
				}
				if last != context.DeadlineExceeded {
					t.Errorf("got %v, want the deadline itself", last)
				}
				if s := c.Stats(); s.Failures != 0 || s.InFlight != 0 || c.Healthy() != nil {
					t.Errorf("got %+v, health %v, want neither failures nor calls in flight", s, c.Healthy())
				}
			})
		})
	}
}

func TestIdleConnectionsAreKept(t *testing.T) {
	t.Parallel()
	simulate(t, Config{MaxConcurrent: 4}, []http.HandlerFunc{answer("Hi.")}, func(t *testing.T, c *Client, f *fake) {
		for range 5 {
			done := make(chan error)
			for range 4 {
				go func() { _, err := ask(t.Context(), c); done <- err }()
			}
			for range 4 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.conns > 4 {
			t.Errorf("got %d connections for 20 calls, four at a time", f.conns)
		}
	})
}

package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"debrief/events/chat"
)

const testKey = "sk-test-0123456789abcdef"

// request is a request received by a server.
type request struct {
	Path   string
	Header http.Header
	Body   string
	At     time.Duration // since the server began
}

// field returns one field of the body as written, "" without it.
func (r request) field(t *testing.T, name string) string {
	t.Helper()
	var body map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
		t.Fatalf("request %q: %v", r.Body, err)
	}
	return string(body[name])
}

// fake is a server of the OpenAI API. It uses its replies one by one and repeats the last one.
type fake struct {
	mu       sync.Mutex
	began    time.Time
	replies  []http.HandlerFunc
	requests []request
	conns    int
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body)) // the reply reads it too
	f.mu.Lock()
	f.requests = append(f.requests, request{r.URL.Path, r.Header, string(body), time.Since(f.began)})
	reply := f.replies[0]
	if len(f.replies) > 1 {
		f.replies = f.replies[1:]
	}
	f.mu.Unlock()
	reply(w, r)
}

func (f *fake) seen() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]request(nil), f.requests...)
}

// speak replaces the replies.
func (f *fake) speak(replies ...http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies = replies
}

// pipe is a net.Listener for connections in memory. They work with testing/synctest, so the tests use real HTTP with
// exact times and without waiting.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipe) Close() error   { close(p.closed); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// simulate runs body in a synctest bubble, with a client of a server with these replies.
func simulate(t *testing.T, cfg Config, replies []http.HandlerFunc, body func(t *testing.T, c *Client, f *fake)) {
	t.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	bubble(t, cfg, replies, newClient, body)
}

// embedding is simulate with an Embedder.
func embedding(t *testing.T, cfg Config, replies []http.HandlerFunc, body func(t *testing.T, e *Embedder, f *fake)) {
	t.Helper()
	bubble(t, cfg, replies, newEmbedder, body)
}

func bubble[C interface{ Close() }](t *testing.T, cfg Config, replies []http.HandlerFunc,
	dial func(Config, http.RoundTripper) (C, error), body func(t *testing.T, c C, f *fake),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{began: time.Now(), replies: replies}
		p := &pipe{make(chan net.Conn), make(chan struct{})}
		srv := &http.Server{Handler: f, ReadHeaderTimeout: time.Hour}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(p) }()

		cfg.BaseURL = "http://model.test/v1"
		if cfg.Model == "" {
			cfg.Model = "test-model"
		}
		if cfg.APIKey == "" {
			cfg.APIKey = testKey
		}
		transport := newTransport(cfg.WithDefaults().MaxConcurrent)
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			f.mu.Lock()
			f.conns++
			f.mu.Unlock()
			ours, theirs := net.Pipe()
			select {
			case p.conns <- theirs:
				return ours, nil
			case <-p.closed:
				return nil, fmt.Errorf("dial tcp model.test: connection refused")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		c, err := dial(cfg, transport)
		if err != nil {
			t.Fatal(err)
		}
		body(t, c, f)
		c.Close()
		_ = srv.Close()
		<-done
	})
}

func ask(ctx context.Context, c *Client) (chat.Reply, error) {
	return c.Complete(ctx, chat.Prompt{Name: "generator", Messages: []chat.Message{{Speaker: chat.System, Text: "Be brief."}, {Speaker: chat.User, Text: "Hello?"}}})
}

// answer is a complete reply: ten tokens in, five out.
func answer(text string) http.HandlerFunc {
	return status(200, fmt.Sprintf(`{"id":"1","object":"chat.completion","model":"test-model-1","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, text))
}

// status is a reply with further header lines, such as "Retry-After: 5".
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// cut announces more bytes than it sends.
func cut(code int, body string) http.HandlerFunc {
	return status(code, body, fmt.Sprintf("Content-Length: %d", len(body)+100))
}

// silence never replies. It ends when the client disconnects.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func repeat(n int, h http.HandlerFunc, then ...http.HandlerFunc) []http.HandlerFunc {
	var list []http.HandlerFunc
	for range n {
		list = append(list, h)
	}
	return append(list, then...)
}

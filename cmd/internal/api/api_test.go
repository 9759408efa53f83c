package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/service"
)

// TestMain fails the package if a server or a connection outlives its test.
func TestMain(m *testing.M) {
	bustest.Prepare()
	goleak.VerifyTestMain(m)
}

// patience is the timeout of a test for expected events.
const patience = 15 * time.Second

// desk replies with the functions of a test. By default it echoes the request.
type desk struct {
	report   func(context.Context, *events.Report) (*events.StoredReply, error)
	feedback func(context.Context, *events.FeedbackRequest) (*events.StoredReply, error)
}

func (desk) Context(_ context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	return &events.ContextReply{Book: r.Book, Session: r.Query, Version: r.MinVersion}, nil
}

func (d desk) Report(ctx context.Context, r *events.Report) (*events.StoredReply, error) {
	if d.report == nil {
		return &events.StoredReply{Handle: events.Handle(r.Book) + "/" + events.Handle(r.Answer)}, nil
	}
	return d.report(ctx, r)
}

func (d desk) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	if d.feedback != nil {
		return d.feedback(ctx, r)
	}
	return &events.StoredReply{Handle: r.Execution, Duplicate: true}, nil
}

// open serves a desk on loopback until the end of the test, with a client without idle connections.
func open(t testing.TB, d service.Backend, o Options, most limits) (*Server, *http.Client) {
	t.Helper()
	s := &Server{httptest.NewServer(newHandler(d, o, most))}
	transport := &http.Transport{ExpectContinueTimeout: patience}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.http.Close()
	})
	return s, &http.Client{Transport: transport, Timeout: patience}
}

// Server serves a handler on loopback.
type Server struct{ http *httptest.Server }

// URL returns the URL of the server, without a path.
func (s *Server) URL() string { return s.http.URL }

// do sends a request; the changes modify a valid one.
func do(t testing.TB, c *http.Client, method, url, body string, changes ...func(*http.Request)) (code int, header http.Header, reply string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, change := range changes {
		change(r)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, strings.TrimSpace(string(data))
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(name)
			return
		}
		r.Header.Set(name, value)
	}
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// lengthless hides the length of a body.
func lengthless(r *http.Request) { r.ContentLength = -1 }

func TestRequestsOverHTTP(t *testing.T) {
	t.Parallel()
	s, c := open(t, desk{}, Options{}, defaultLimits)
	for _, test := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		code                     int
		want                     string
	}{
		{"a context", "POST", "/api/v1/contexts", `{"query":"q","min_version":3}`, nil, 200, `{"book":"default","session":"q","playbook_version":3,`},
		{"a report", "POST", "/api/v1/executions", `{"book":"b","answer":"x"}`, nil, 201, `{"handle":"b/x"}`},
		{"feedback", "POST", "/api/v1/feedback", `{"execution":"17-ab12cd34"}`, nil, 200, `{"handle":"17-ab12cd34","duplicate":true}`},
		{"of unknown length", "POST", "/api/v1/executions", `{"answer":"x"}`, lengthless, 201, `{"handle":"default/x"}`},
		{"says its charset", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Type", "application/json; charset=UTF-8"), 201, `{"handle":"default/x"}`},
		{"says that it is plain", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Encoding", "identity"), 201, `{"handle":"default/x"}`},
		{"the index", "GET", "/api/v1/", "", nil, 200, `{"service":"debrief","version":"1.0.0",`},
		{"the index, without the slash", "GET", "/api/v1", "", nil, 200, `{"service":"debrief",`},

		{"an unknown field", "POST", "/api/v1/executions", `{"answer":"x","anwser":"y","steps":[{"tols":[]}]}`, nil, 201, `"warnings":["unknown field \"anwser\" ignored","unknown field \"steps[0].tols\" ignored"]`},
		{"ends with a slash", "POST", "/api/v1/executions/", `{"answer":"x"}`, nil, 201, `{"handle":"default/x"}`},

		{"a misspelled field that is required", "POST", "/api/v1/feedback", `{"executon":"1-ab12cd34"}`, nil, 400, `; unknown field \"executon\"","code":"invalid","field":"execution"`},
		{"an unknown field, strict", "POST", "/api/v1/contexts?strict=1", `{"qery":"q"}`, nil, 400, `"field":"qery"`},
		{"an unknown parameter", "POST", "/api/v1/contexts?srict=1", `{"query":"q"}`, nil, 400, `"field":"srict"`},
		{"a context that nobody stores", "POST", "/api/v1/contexts", `{"query":"q","unstored":true}`, nil, 400, `"field":"unstored"`},
		{"a parameter twice", "POST", "/api/v1/contexts?strict=1&strict=0", `{"query":"q"}`, nil, 400, `"field":"strict"`},
		{"an invalid parameter", "POST", "/api/v1/contexts?strict=maybe", `{"query":"q"}`, nil, 400, `"field":"strict"`},
		{"a field of another type", "POST", "/api/v1/contexts", `{"query":"q","steps":[{"tool_calls":[{"tool":3}]}]}`, nil, 400, `"field":"steps[0].tool_calls[0].tool"`},
		{"a window as a number", "POST", "/api/v1/contexts", `{"query":"q","window":3}`, nil, 200, `"book":"default"`},
		{"a window of half a turn", "POST", "/api/v1/contexts", `{"query":"q","window":2.5}`, nil, 400, `"field":"window"`},
		{"an invalid book", "POST", "/api/v1/contexts", `{"query":"q","book":"a/b"}`, nil, 400, `"field":"book"`},
		{"messages and steps", "POST", "/api/v1/executions", `{"messages":[{"role":"assistant","content":"x"}],"steps":[{"text":"y"}]}`, nil, 400, `"field":"messages"`},
		{"messages without an agent", "POST", "/api/v1/executions", `{"messages":[{"role":"user","content":"x"}]}`, nil, 400, `"field":"messages"`},
		{"fields without a value", "POST", "/api/v1/executions", `{"answer":"x","messages":null,"tools":null,"outcome":null,"score":null,"agent":null}`, nil, 201, `{"handle":"default/x"}`},
		{"messages that are a text", "POST", "/api/v1/executions", `{"messages":"x"}`, nil, 400, `"field":"messages"`},
		{"an invalid outcome", "POST", "/api/v1/executions", `{"answer":"x","outcome":"purple"}`, nil, 400, `"field":"outcome"`},
		{"compressed", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Encoding", "gzip"), 415, `Content-Encoding`},
		{"a long key", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Idempotency-Key", strings.Repeat("k", 257)), 400, `"field":"Idempotency-Key"`},
		{"a page of another site", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Sec-Fetch-Site", "cross-site"), 403, `"code":"cross-origin"`},
		{"no body", "POST", "/api/v1/contexts", "", nil, 400, `"detail":`},
		{"a hundred thousand deep", "POST", "/api/v1/contexts", strings.Repeat(`{"a":`, 100_000), nil, 400, `"detail":`},
		{"elsewhere", "POST", "/api/v1/forget", `{}`, nil, 404, `"detail":`},
		{"further down", "POST", "/api/v1/contexts/x", `{}`, nil, 404, `"detail":`},
		{"no folder is served", "GET", "/api/v1/../../etc/passwd", "", nil, 404, `"detail":`},
		{"the top", "GET", "/", "", nil, 404, `"detail":`},
		{"the wrong method", "GET", "/api/v1/contexts", "", nil, 405, `POST`},
		{"a browser's question", "OPTIONS", "/api/v1/contexts", "", nil, 405, `POST`},
		{"the wrong method for the index", "POST", "/api/v1/", "{}", nil, 405, `GET or HEAD`},
		{"too large", "POST", "/api/v1/feedback", strings.Repeat(" ", 1<<20+1), set("Expect", "100-continue"), 413, `1048576`},
		{"a form", "POST", "/api/v1/executions", "answer=x", set("Content-Type", "application/x-www-form-urlencoded"), 415, `application/json`},
		{"plain text", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Type", "text/plain"), 415, `"detail":`},
		{"no type", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Type", ""), 415, `"detail":`},
		{"a type that only begins so", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Type", "application/json-seq"), 415, `"detail":`},
		{"another charset", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Type", "application/json; charset=latin1"), 415, `"detail":`},
		{"another compression", "POST", "/api/v1/executions", `{"answer":"x"}`, set("Content-Encoding", "br"), 415, `Content-Encoding`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			change := test.change
			if change == nil {
				change = func(*http.Request) {}
			}
			code, header, got := do(t, c, test.method, s.URL()+test.path, test.body, change)
			var p Problem
			if code != test.code || !strings.Contains(got, test.want) || json.Unmarshal([]byte(got), &p) != nil {
				t.Errorf("got  %d %.300s\nwant %d %s", code, got, test.code, test.want)
			}
			kind := "application/json"
			if code >= 400 {
				kind = "application/problem+json"
				if p.Status != code || p.Title == "" || p.Detail == "" || p.Code == "" || p.RequestID != header.Get("X-Request-Id") {
					t.Errorf("got problem %+v", p)
				}
			}
			if header.Get("Content-Type") != kind || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("got headers %v", header)
			}
			if code == 405 != (header.Get("Allow") != "") {
				t.Errorf("got Allow %q with %d", header.Get("Allow"), code)
			}
		})
	}
}

type lost struct{}

func (lost) Error() string  { return "no context of that id" }
func (lost) NotFound() bool { return true }

func TestDeskErrorsOverHTTP(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		err   error
		code  int
		after string
	}{
		{"not found", lost{}, 404, ""},
		{"full", &bus.FullError{Err: errors.New("10077")}, 503, "5"},
		{"too late", context.DeadlineExceeded, 504, ""},
		{"any other", errors.New("secret"), 500, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, c := open(t, desk{report: func(context.Context, *events.Report) (*events.StoredReply, error) { return nil, test.err }}, Options{}, defaultLimits)
			code, header, body := do(t, c, "POST", s.URL()+"/api/v1/executions", `{}`)
			if code != test.code || header.Get("Retry-After") != test.after || strings.Contains(body, "secret") {
				t.Errorf("got %d, again after %q: %s; want %d, %q", code, header.Get("Retry-After"), body, test.code, test.after)
			}
		})
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	var log bytes.Buffer
	s, c := open(t, desk{}, Options{Tokens: single(t, "ci", token, tokens.Scopes), Log: zerolog.New(&log)}, defaultLimits)
	for _, test := range []struct {
		name   string
		header string
		code   int
	}{
		{"right", "Bearer " + token, 201},
		{"right, in small letters", "bearer " + token, 201},
		{"none", "", 401},
		{"wrong", "Bearer 0123456789abcdeg", 401},
		{"its beginning", "Bearer 0123456789abcde", 401},
		{"with more after it", "Bearer " + token + token, 401},
		{"of another scheme", "Basic " + token, 401},
		{"without a scheme", token, 401},
		{"empty", "Bearer ", 401},
	} {
		for _, path := range []string{"/api/v1/executions", "/api/v1/elsewhere", "/api/v1/"} {
			method := "POST"
			want := test.code
			switch {
			case path == "/api/v1/":
				if method = "GET"; want == 201 {
					want = 200
				}
			case path == "/api/v1/elsewhere" && want == 201:
				want = 404
			}
			// Any Host header is accepted.
			code, header, body := do(t, c, method, s.URL()+path, `{"answer":"private"}`, set("Authorization", test.header), host("debrief.example.org"))
			if code != want {
				t.Errorf("%s, %s: got %d %s, want %d", test.name, path, code, body, want)
			}
			if (header.Get("WWW-Authenticate") == `Bearer realm="debrief"`) != (code == 401) {
				t.Errorf("%s, %s: got %d with WWW-Authenticate %q", test.name, path, code, header.Get("WWW-Authenticate"))
			}
		}
	}
	c.CloseIdleConnections()
	s.http.Close() // stops logging
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 27 || !strings.Contains(lines[0], `"path":"/api/v1/executions"`) {
		t.Errorf("want a line for each of 27 requests, got %d: %s", len(lines), log.String())
	}
	if strings.Contains(log.String(), "0123456789") || strings.Contains(log.String(), "private") {
		t.Errorf("want neither tokens nor bodies, got %s", log.String())
	}
}

// TestHostHeaderWithoutToken: a page whose name resolves to 127.0.0.1 sends its own name as Host.
func TestHostHeaderWithoutToken(t *testing.T) {
	t.Parallel()
	s, c := open(t, desk{}, Options{}, defaultLimits)
	for name, want := range map[string]int{
		"127.0.0.1": 201, "127.0.0.1:8080": 201, "127.1.2.3": 201, "localhost": 201, "LocalHost:80": 201, "[::1]": 201, "[::1]:8080": 201, "[::ffff:127.0.0.1]": 201,
		"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "192.168.0.1": 421,
		"0.0.0.0": 421, "[::]": 421, "2130706433": 421,
	} {
		if code, _, body := do(t, c, "POST", s.URL()+"/api/v1/executions", `{}`, host(name)); code != want {
			t.Errorf("%s: got %d %s, want %d", name, code, body, want)
		}
	}
}

// single returns the set of one token.
func single(t *testing.T, name, secret string, scopes []tokens.Scope) *tokens.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	entry := fmt.Sprintf("%s: {hash: sha256:%x, owner: %s, scopes: %s}\n", name, sha256.Sum256([]byte(secret)), events.Hash(name), strings.ReplaceAll(fmt.Sprint(scopes), " ", ", "))
	if err := os.WriteFile(path, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := tokens.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// endless is a body of spaces. It allocates nothing.
type endless struct{ left, read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	n := min(int64(len(p)), e.left.Load())
	if n == 0 {
		return 0, io.EOF
	}
	for i := range p[:n] {
		p[i] = ' '
	}
	e.left.Add(-n)
	e.read.Add(n)
	return int(n), nil
}

// TestTooLargeBodyIsAnswered sends a body over the limit from a client that reads only after it has sent everything.
func TestTooLargeBodyIsAnswered(t *testing.T) {
	t.Parallel()
	s, _ := open(t, desk{}, Options{}, defaultLimits)
	for _, test := range []struct{ name, length string }{
		{"of known length", fmt.Sprintf("Content-Length: %d", 24<<20)},
		{"of unknown length", "Transfer-Encoding: chunked"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			head := "POST /api/v1/executions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + test.length + "\r\n\r\n"
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			block := strings.Repeat(" ", 1<<20)
			if test.length[0] == 'T' {
				block = fmt.Sprintf("%x\r\n%s\r\n", len(block), block)
			}
			for i := range 24 {
				if _, err := io.WriteString(conn, block); err != nil {
					t.Fatalf("after %d MB: %v", i, err)
				}
			}
			if test.length[0] == 'T' {
				if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 413 || !strings.Contains(string(text), "16777216") {
				t.Errorf("got %d %s, %v, want 413 with the limit", resp.StatusCode, text, err)
			}
		})
	}
}

// TestHugeBodyMemory is not parallel, because it measures all allocations.
func TestHugeBodyMemory(t *testing.T) {
	s, c := open(t, desk{}, Options{}, defaultLimits)
	for _, test := range []struct {
		name   string
		length int64
		most   uint64 // total bytes allocated
	}{
		{"that says so", 100 << 20, 1 << 20},
		{"of unknown length", -1, 50 << 20},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body := new(endless)
		body.left.Store(100 << 20)
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/api/v1/executions", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = test.length
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Expect", "100-continue")
		// A client that is still sending may get a connection error before the response.
		if resp, err := c.Do(r); err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 413 || !strings.Contains(string(text), "16777216") {
				t.Errorf("%s: got %d %s", test.name, resp.StatusCode, text)
			}
		} else if test.length > 0 {
			t.Errorf("%s: %v", test.name, err)
		}
		runtime.ReadMemStats(&after)
		got := after.TotalAlloc - before.TotalAlloc
		t.Logf("a body of 100 MB %s: %d KB allocated, %d MB sent", test.name, got>>10, body.read.Load()>>20)
		if got > test.most {
			t.Errorf("%s: %d bytes allocated, want at most %d", test.name, got, test.most)
		}
		if body.read.Load() > 40<<20 {
			t.Errorf("%s: read on after the limit: %d bytes", test.name, body.read.Load())
		}
	}
}

// raw opens a connection and sends a text unchanged.
func raw(t *testing.T, s *Server, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

const begun = "POST /api/v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	most := defaultLimits
	most.body = 200 * time.Millisecond
	s, _ := open(t, desk{}, Options{}, most)
	for name, test := range map[string]struct{ text, status string }{
		"a body":          {begun, "408"},
		"a body, refused": {strings.Replace(begun, "application/json", "text/plain", 1), "415"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := io.ReadAll(raw(t, s, test.text)) // until the server closes the connection
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(got), "HTTP/1.1 "+test.status) {
				t.Errorf("got %q, want status %s", got, test.status)
			}
		})
	}
}

// TestSlowHandlerAfterBodyTimeout: the timeout of the body does not include the handler.
func TestSlowHandlerAfterBodyTimeout(t *testing.T) {
	t.Parallel()
	most := defaultLimits
	most.body = 100 * time.Millisecond
	s, c := open(t, desk{report: func(ctx context.Context, _ *events.Report) (*events.StoredReply, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(300 * time.Millisecond):
			return &events.StoredReply{Handle: "1-ab12cd34"}, nil
		}
	}}, Options{}, most)
	for range 2 { // also on a reused connection
		if code, _, body := do(t, c, "POST", s.URL()+"/api/v1/executions", `{}`); code != 201 {
			t.Errorf("got %d %s", code, body)
		}
	}
}

func TestDisconnectCancelsRequest(t *testing.T) {
	t.Parallel()
	entered, ended := make(chan struct{}), make(chan error, 1)
	s, _ := open(t, desk{report: func(ctx context.Context, _ *events.Report) (*events.StoredReply, error) {
		close(entered)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}, Options{}, defaultLimits)
	conn := raw(t, s, strings.Replace(begun, "Content-Length: 100\r\n\r\n{", "Content-Length: 2\r\n\r\n{}", 1))
	<-entered
	_ = conn.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want it canceled", err)
		}
	case <-time.After(patience):
		t.Error("the desk works on for nobody")
	}
}

func BenchmarkReportOverHTTP(b *testing.B) {
	s, c := open(b, desk{}, Options{}, defaultLimits)
	for b.Loop() {
		if code, _, _ := do(b, c, "POST", s.URL()+"/api/v1/executions", `{"answer":"x"}`); code != 201 {
			b.Fatal(code)
		}
	}
}

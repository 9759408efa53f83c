package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestHoldBody(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	for _, test := range []struct {
		name     string
		size     int
		declared int64
		memory   int64
		whole    bool
		why      reason
		room     int64
	}{
		{"empty", 0, 0, limit, true, reason{}, 1},
		{"small", 1, 1, limit, true, reason{}, 2},
		{"small, unknown length", 1, -1, limit, true, reason{}, firstRoom},
		{"doubles up to the declared length", 20 << 10, 20 << 10, limit, true, reason{}, 20<<10 + 1},
		{"as large as possible", limit, -1, 2 * limit, true, reason{}, limit + 1},
		{"one byte more", limit + 1, -1, 2 * limit, false, bodySize, limit + 1},
		{"no memory", firstRoom + 1, -1, firstRoom + 1, false, noMemory, firstRoom},
		{"no memory at all", 1, 1, 1, false, noMemory, 0},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"at once":            func(r io.Reader) io.Reader { return r },
			"with EOF":           iotest.DataErrReader,
			"in pieces":          iotest.HalfReader,
			"in smallest pieces": iotest.OneByteReader,
		} {
			b := &budget{limit: test.memory}
			body := strings.Repeat("x", test.size)
			source := wrap(strings.NewReader(body))
			h, err := b.hold(source, test.declared, limit)
			if err != nil || h.whole != test.whole || h.reason != test.why || h.room != test.room || b.held.Load() != h.room {
				t.Errorf("%s, %s: got whole %v, %v, room %d, held %d, %v", test.name, name, h.whole, h.reason, h.room, b.held.Load(), err)
			}
			if all, err := io.ReadAll(h.rest(io.NopCloser(source))); err != nil || string(all) != body {
				t.Errorf("%s, %s: the rest is different: %d bytes, %v", test.name, name, len(all), err)
			}
		}
	}
	b := &budget{limit: limit}
	if h, err := b.hold(iotest.ErrReader(errSlow), -1, limit); !errors.Is(err, errSlow) || h.room != firstRoom {
		t.Errorf("got %v, room %d", err, h.room)
	}
}

// TestPaceOfBodies checks the deadlines of a body: they move with each step, and end with the body.
func TestPaceOfBodies(t *testing.T) {
	t.Parallel()
	var left []time.Duration // time until each deadline, -1 for none
	deadline := func(at time.Time) error {
		if at.IsZero() {
			left = append(left, -1)
			return nil
		}
		left = append(left, time.Until(at).Round(time.Minute))
		return nil
	}
	next := func(n int, err error, waited time.Duration, bytes int) *pacedBody {
		read := func(p []byte) (int, error) { return n, err }
		return &pacedBody{ReadCloser: io.NopCloser(reader(read)), deadline: deadline, pace: pace{8, time.Hour}, waited: waited, bytes: bytes}
	}
	for _, test := range []struct {
		name   string
		body   *pacedBody
		err    error
		waits  bool // the time counts on
		before time.Duration
		after  time.Duration // 0: not changed
	}{
		{"a byte", next(1, nil, time.Minute, 0), nil, true, 59 * time.Minute, 0},
		{"a step", next(1, nil, time.Minute, 7), nil, false, 59 * time.Minute, 0},
		{"the end", next(1, io.EOF, 0, 0), io.EOF, true, time.Hour, -1},
		{"too slow", next(0, os.ErrDeadlineExceeded, 0, 0), errSlow, true, time.Hour, 0},
	} {
		left = nil
		_, err := test.body.Read(make([]byte, 10))
		if !errors.Is(err, test.err) || (test.body.waited > 0) != test.waits || left[0] != test.before {
			t.Errorf("%s: got %v, waited %s, deadline %s", test.name, err, test.body.waited, left[0])
		}
		if test.after == 0 && len(left) > 1 || test.after != 0 && left[1] != test.after {
			t.Errorf("%s: got deadlines %v", test.name, left)
		}
	}
}

// reader is an io.Reader as a function.
type reader func([]byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

// TestSlowBodies: a body that stops is refused, also one that is streamed upstream. A slow response is not.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	const window = 50 * time.Millisecond
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			time.Sleep(3 * window)
			_, _ = w.Write(body)
		}
	})
	g, err := New(Options{OpenAI: Upstream{URL: url}, Middle: middle(nothing)})
	if err != nil {
		t.Fatal(err)
	}
	g.pace.window = window
	s, c := serveTest(t, g)
	for _, mode := range []Mode{ModeOff, ModeObserve} {
		got := raw(t, s, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nX-Debrief-Mode: "+string(mode)+"\r\nContent-Length: 10\r\n\r\nhalf")
		res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 408 || !res.Close || res.Header.Get(headerError) != "slow_body" {
			t.Errorf("%s: got %s", mode, got)
		}
		if res, body := do(t, c, "POST", s.URL()+"/v1/responses", "{}", headerMode, string(mode)); res.StatusCode != 200 || body != "{}" {
			t.Errorf("%s: a slow response: got %d %s", mode, res.StatusCode, body)
		}
	}
	for end := time.Now().Add(patience); g.memory.held.Load() != 0; time.Sleep(time.Millisecond) { // the client may have the response first
		if time.Now().After(end) {
			t.Fatalf("%d bytes are still counted", g.memory.held.Load())
		}
	}
}

// TestSmuggling sends requests with an ambiguous end. The upstream gets none, or exactly one.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	url := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%s %s %v", r.URL.Path, body, err)
	})
	s, _ := open(t, url, Options{})
	const head = "POST /v1/files/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	for _, test := range []struct {
		name, request string
		status        string
		want          string // request that the upstream gets
	}{
		{"two lengths", head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400", ""},
		{"two lengths in one header", head + "Content-Length: 1, 2\r\n\r\nab", "400", ""},
		{"negative length", head + "Content-Length: -1\r\n\r\n", "400", ""},
		{"signed length", head + "Content-Length: +1\r\n\r\na", "400", ""},
		{"length and chunks", head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\n\r\n", "200", "/v1/files/x a <nil>"},
		{"unknown encoding", head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501", ""},
		{"two encodings", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501", ""},
		{"space before the colon", head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400", ""},
		{"folded header", head + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "200", "/v1/files/x  <nil>"},
		{"bare CR in a header", head + "X: a\rContent-Length: 5\r\n\r\n", "400", ""},
		{"NUL in a header", head + "X: a\x00b\r\n\r\n", "400", ""},
		{"no host", "GET /v1/files/x HTTP/1.1\r\n\r\n", "400", ""},
		{"two hosts", head + "Host: localhost\r\n\r\n", "400", ""},
		{"bad chunk", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\na\r\n0\r\n\r\n", "400", "/v1/files/x  unexpected EOF"},
		{"chunk longer than its length", head + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", "400", "/v1/files/x a unexpected EOF"},
		{"negative chunk", head + "Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n", "400", "/v1/files/x  unexpected EOF"},
		{"large headers", head + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 100) + "\r\n", "431", ""},
		{"many headers", head + strings.Repeat("X: x\r\n", 1000) + "\r\n", "200", "/v1/files/x  <nil>"},
	} {
		answer := raw(t, s, test.request)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+test.status+" ") || strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("%s: got %.300s, want one %s", test.name, answer, test.status)
		}
		in := ""
		if test.want != "" {
			in = <-got
		}
		if in != test.want || len(got) > 0 {
			t.Errorf("%s: the upstream got %q and %d others, want %q", test.name, in, len(got), test.want)
		}
	}
}

package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

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
	g, err := newGateway(gatewayOptions{OpenAI: Upstream{URL: url}, Middleware: middleware(nothing)})
	if err != nil {
		t.Fatal(err)
	}
	g.pace.Window = window
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
	for end := time.Now().Add(patience); g.memory.InUse() != 0; time.Sleep(time.Millisecond) { // the client may have the response first
		if time.Now().After(end) {
			t.Fatalf("%d bytes are still counted", g.memory.InUse())
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
	s, _ := open(t, url, gatewayOptions{})
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

package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"debrief/events"
)

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// TestModeOffPassesEverything compares every request and response on both sides of the gateway: line, headers, body.
func TestModeOffPassesEverything(t *testing.T) {
	t.Parallel()
	type message struct {
		line   string
		header http.Header
		body   string
	}
	got := make(chan message, 1)
	const answer = "data: {\"a\": 1}\n\n: ping\r\n\ndata: \xff[DONE]"
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- message{r.Method + " " + r.RequestURI, r.Header, string(body)}
		w.Header()["Content-Type"] = nil
		if kind := r.Header.Get("X-Kind"); kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.Header()["x-RateLimit"] = []string{"1", "2"}
		w.Header().Set("Location", "/v1/elsewhere")
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Debrief-Context", "of the upstream")
		if r.Header.Get("Accept-Encoding") == "zstd" {
			w.Header().Set("Content-Encoding", "zstd")
		}
		w.WriteHeader(200 + len(r.URL.Path)%4*101)
		_, _ = io.WriteString(w, answer)
	})
	s, c := open(t, url, gatewayOptions{})
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		want                     string // request line, default the same
	}{
		{name: "chat", method: "POST", path: "/v1/chat/completions", body: `{ "messages" : [], "unknown":1e400 }`, header: []string{"Authorization", "Bearer sk-1", "X-Kind", "application/json"}},
		{name: "not JSON", method: "POST", path: "/v1/responses", body: "\x00\xff{"},
		{name: "unknown path and query", method: "PATCH", path: "/v1/x//y/%41?a=%zz;b&&c=1", body: "x", header: []string{"Authorization", "Bearer sk-1"}},
		{name: "the base", method: "GET", path: "/v1", header: []string{"X-Api-Key", "k"}},
		{name: "no body", method: "DELETE", path: "/v1/responses/resp_1"},
		{name: "compressed", method: "POST", path: "/v1/embeddings", body: gzipped("{}"), header: []string{"Content-Encoding", "gzip", "Accept-Encoding", "zstd"}},
		{name: "forwarding headers", method: "POST", path: "/v1/files", body: "x", header: []string{"X-Forwarded-For", "10.0.0.1", "Forwarded", "for=a", "User-Agent", "mine", "traceparent", "00-1"}},
		{name: "own headers", method: "POST", path: "/v1/messages", body: "{}", header: []string{"X-Debrief-Book", "b", "x-debrief-anything", "1", "Anthropic-Beta", "a", "X-Api-Key", "k"}},
		{name: "a book", method: "GET", path: "/books/sales/v1/models?limit=2", want: "GET /v1/models?limit=2"},
		{name: "a book of Anthropic", method: "GET", path: "/books/sales/anthropic/v1/models", want: "GET /v1/models"},
		{name: "Anthropic", method: "POST", path: "/anthropic/v1/messages/count_tokens", body: "{}", want: "POST /v1/messages/count_tokens"},
		{name: "1 MiB", method: "POST", path: "/v1/audio", body: strings.Repeat("\x01\r\n", 350_000)},
		{name: "Expect", method: "POST", path: "/v1/audio", body: "x", header: []string{"Expect", "100-continue"}},
	} {
		res, body := do(t, c, test.method, s.URL()+test.path, test.body, test.header...)
		in := <-got
		if want := test.method + " " + test.path; in.line != want && in.line != test.want {
			t.Errorf("%s: upstream got %q, want %q", test.name, in.line, want)
		}
		if hash(in.body) != hash(test.body) || hash(body) != hash(answer) {
			t.Errorf("%s: bodies differ: request %.60q, response %.60q", test.name, in.body, body)
		}
		want := http.Header{"User-Agent": {"Go-http-client/1.1"}}
		if test.body != "" {
			want.Set("Content-Length", fmt.Sprint(len(test.body)))
		}
		for i := 0; i < len(test.header); i += 2 {
			if name := http.CanonicalHeaderKey(test.header[i]); !strings.HasPrefix(name, headerPrefix) && name != "Expect" {
				want.Set(name, test.header[i+1])
			}
		}
		if id := in.header.Get(headerHops); len(id) != len(events.NewID()) {
			t.Errorf("%s: upstream got the hops %q", test.name, id)
		}
		in.header.Del(headerHops)
		if !maps.EqualFunc(in.header, want, slices.Equal) {
			t.Errorf("%s: upstream got headers\n%v, want\n%v", test.name, in.header, want)
		}
		direct, _ := do(t, c, test.method, url+in.line[strings.Index(in.line, " ")+1:], test.body, test.header...)
		<-got
		direct.Header.Set("Date", res.Header.Get("Date")) // a second may have passed
		if res.StatusCode != direct.StatusCode || !maps.EqualFunc(res.Header, direct.Header, slices.Equal) {
			t.Errorf("%s: got %d %v\nwithout the gateway %d %v", test.name, res.StatusCode, res.Header, direct.StatusCode, direct.Header)
		}
	}
}

func TestTrailersPass(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer.Get("X-Sum")
		w.Header().Set("Trailer", "X-End")
		_, _ = io.WriteString(w, "data")
		w.Header().Set("X-End", "yes")
		w.Header().Set(http.TrailerPrefix+"X-Late", "too")
	})
	s, c := open(t, url, gatewayOptions{})
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/v1/files", io.MultiReader(strings.NewReader("body")))
	r.Trailer = http.Header{"X-Sum": {"17"}}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if sum := <-got; sum != "17" || string(body) != "data" || err != nil || res.Trailer.Get("X-End") != "yes" || res.Trailer.Get("X-Late") != "too" {
		t.Errorf("got trailer %q, %q, %v, trailers %v", sum, body, err, res.Trailer)
	}
}

// TestWebSocketPasses: an upgraded connection passes bytes both ways, and ends with the server.
func TestWebSocketPasses(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	})
	s, _ := open(t, url, gatewayOptions{})
	conn := dial(t, s)
	fmt.Fprint(conn, "GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", res, err)
	}
	defer res.Body.Close()
	fmt.Fprint(conn, "frame")
	echo := make([]byte, 5)
	if _, err := io.ReadFull(in, echo); err != nil || string(echo) != "frame" {
		t.Errorf("got %q, %v", echo, err)
	}
	if err := s.Close(1); err == nil {
		t.Error("the open connection was not cut")
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection is open after Close")
	}
}

// TestCloseWaitsForStreams: a stream that is open at Close ends normally, and new connections are refused.
func TestCloseWaitsForStreams(t *testing.T) {
	t.Parallel()
	closing := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begin ")
		_ = http.NewResponseController(w).Flush()
		<-closing
		_, _ = io.WriteString(w, "end")
	})
	done := make(chan *record, 1)
	observe := func(context.Context, *Call) (*Edit, error) { return &Edit{Recorder: &record{done: done}}, nil }
	s, c := open(t, url, gatewayOptions{Mode: ModeObserve, Middleware: middleware(observe)})
	res, err := c.Post(s.URL()+"/v1/responses", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	closed := make(chan error, 1)
	s.http.RegisterOnShutdown(sync.OnceFunc(func() { close(closing) }))
	go func() { closed <- s.Close(patience) }()
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "begin end" {
		t.Errorf("got %q, %v", body, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if rec := <-done; rec.err != nil || rec.String() != "begin end" {
		t.Errorf("recorded %q, %v", rec.String(), rec.err)
	}
	if _, err := c.Get(s.URL() + "/v1/models"); err == nil {
		t.Error("a request after Close has a response")
	}
}

// TestFirstChunkPassesAtOnce: a chunk reaches the client while the upstream waits for the client to read it.
func TestFirstChunkPassesAtOnce(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "chunk")
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	s, c := open(t, url, gatewayOptions{})
	res, err := c.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for range 3 {
		chunk := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, chunk); err != nil || string(chunk) != "chunk" {
			t.Fatalf("got %q, %v", chunk, err)
		}
		next <- struct{}{}
	}
}

// TestResponseBeforeRequest: the upstream responds before it has read the body. Both pass completely.
func TestResponseBeforeRequest(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_, _ = io.WriteString(w, "early ")
		_ = control.Flush()
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", hash(string(body)), err)
	})
	s, c := open(t, url, gatewayOptions{})
	for i := range 50 {
		body := strings.Repeat("x", 1000+i*10_000)
		r, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/v1/audio", strings.NewReader(body))
		if i%2 == 1 {
			r.ContentLength = -1
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := "early " + hash(body) + " <nil>"; err != nil || string(got) != want {
			t.Errorf("%d bytes: got %q, %v, want %s", len(body), got, err, want)
		}
	}
}

func TestCutUpstreamCutsClient(t *testing.T) {
	t.Parallel()
	seen := make(chan Observation, 1)
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	s, c := open(t, url, gatewayOptions{Observe: func(o Observation) { seen <- o }})
	res, err := c.Post(s.URL()+"/v1/responses", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "half" {
		t.Errorf("got %q, %v", body, err)
	}
	if o := <-seen; o.Class != ClassResponses || o.Status != 200 || o.Error != CodeCut || o.Total < o.Header {
		t.Errorf("got %+v", o)
	}
}

// TestClientDisconnectCancelsUpstream cancels a call before its response, and one during it.
func TestClientDisconnectCancelsUpstream(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} { // cancel after the first byte, or before the response
		began, ended := make(chan struct{}), make(chan struct{})
		url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if streams {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
			}
			close(began)
			<-r.Context().Done()
			close(ended)
		})
		seen := make(chan Observation, 1)
		s, c := open(t, url, gatewayOptions{Observe: func(o Observation) { seen <- o }})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "POST", s.URL()+"/v1/chat/completions", strings.NewReader("{}"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if res, err := c.Do(r); err == nil {
				_, _ = io.ReadFull(res.Body, make([]byte, 1))
				cancel()
				_ = res.Body.Close()
			}
		}()
		<-began
		if !streams {
			cancel()
		}
		<-ended
		<-done
		if o := <-seen; o.Error != CodeCut || (o.Status != 0) != streams {
			t.Errorf("streams %v: got %+v", streams, o)
		}
	}
}

func TestUnreachableUpstream(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // nothing listens on the port
	s, c := open(t, "http://"+l.Addr().String(), gatewayOptions{})
	for path, want := range map[string]string{
		"/v1/chat/completions": `{"error":{"code":"upstream_unreachable","message":"debrief gateway: the model provider is unreachable: check that it runs, and --upstream-openai of the gateway, or --base-url of 'debrief up'","param":null,"type":"server_error"}}`,
		"/v1/messages":         `{"error":{"message":"debrief gateway: the model provider is unreachable: check that it runs, and --upstream-anthropic of the gateway","type":"api_error"},"type":"error"}`,
	} {
		res, body := do(t, c, "POST", s.URL()+path, "{}")
		if res.StatusCode != 502 || res.Header.Get(headerError) != "upstream_unreachable" || strings.TrimSpace(body) != want || res.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: got %d %v %s", path, res.StatusCode, res.Header, body)
		}
	}
}

// TestManyStreams holds 1,000 streams open at the same time: each waits until all have their first chunk.
func TestManyStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("opens 4,000 connections: run without -short")
	}
	const n = 1000
	var waiting sync.WaitGroup
	waiting.Add(n)
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		_ = http.NewResponseController(w).Flush()
		waiting.Wait()
		_, _ = io.WriteString(w, "end")
	})
	s, c := open(t, url, gatewayOptions{})
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			want := fmt.Sprintf(`{"n":%d}`, i)
			res, err := c.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(want))
			if err != nil {
				t.Error(err)
				waiting.Done()
				return
			}
			defer res.Body.Close()
			first := make([]byte, len(want))
			_, err = io.ReadFull(res.Body, first)
			waiting.Done()
			rest, err2 := io.ReadAll(res.Body)
			if err != nil || err2 != nil || string(first) != want || string(rest) != "end" {
				t.Errorf("got %q, %q, %v, %v; want %s", first, rest, err, err2, want)
			}
		})
	}
	clients.Wait()
}

func TestUpstreamURLs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		provider  Provider
		url, want string // "" is invalid
	}{
		{OpenAI, "https://api.openai.com", "https://api.openai.com/v1/models?q=1"},
		{OpenAI, "https://api.openai.com/", "https://api.openai.com/v1/models?q=1"},
		{OpenAI, "https://api.openai.com/v1", "https://api.openai.com/v1/models?q=1"},
		{OpenAI, "https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1/models?q=1"},
		{OpenAI, "http://host:1/v1beta/openai", "http://host:1/v1beta/openai/models?q=1"},
		{OpenAI, "http://host/a%2Fb", "http://host/a%2Fb/models?q=1"},
		{Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/models?q=1"},
		{Anthropic, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/models?q=1"},
		{Anthropic, "https://host/anthropic", "https://host/anthropic/v1/models?q=1"},
		{OpenAI, "api.openai.com", ""},
		{OpenAI, "ftp://host", ""},
		{OpenAI, "http://user:secret@host", ""},
		{OpenAI, "http://host/?key=secret", ""},
		{OpenAI, "http://secret host/%zz", ""},
	} {
		target, err := Upstream{URL: test.url}.target(test.provider)
		if err != nil {
			if test.want != "" || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s %s: got error %v", test.provider, test.url, err)
			}
			continue
		}
		r := httptest.NewRequest("GET", "/v1/models", nil)
		if err := target.point(r, "/models", "q=1"); err != nil || r.URL.String() != test.want {
			t.Errorf("%s %s: got %s, %v; want %s", test.provider, test.url, r.URL, err, test.want)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]gatewayOptions{
		"OpenAI.URL":    {OpenAI: Upstream{URL: "x"}},
		"Anthropic.Key": {Anthropic: Upstream{Key: "a b"}},
	} {
		if _, err := newGateway(o); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("got %v, want an error of %s", err, field)
		}
	}
}

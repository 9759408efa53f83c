package proxy

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// echoRequest answers with the protocol, the path, the query and the body of a request, as a stream with two events.
func echoRequest(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Trailer", "X-Sum")
	_, _ = io.WriteString(w, "data: "+r.Proto+" "+r.Host+" "+r.URL.RequestURI()+"\n\n")
	_ = http.NewResponseController(w).Flush()
	_, _ = io.WriteString(w, "data: "+string(body)+"\n\n")
	w.Header().Set("X-Sum", strconv.Itoa(len(body)))
}

// trust makes a gateway accept the certificate of a test server.
func trust(g *Gateway, s *httptest.Server) {
	g.transport.TLSClientConfig = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
}

// TestUpstreamWithTLS: over TLS the gateway uses HTTP/2 if the upstream has it, with streams, large bodies and trailers.
func TestUpstreamWithTLS(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a large body ", 100_000)
	for _, test := range []struct {
		name  string
		http2 bool
		proto string
	}{{"HTTP/1.1", false, "HTTP/1.1"}, {"HTTP/2", true, "HTTP/2.0"}} {
		for _, mode := range []Mode{ModeOff, ModeObserve} {
			t.Run(test.name+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				up := httptest.NewUnstartedServer(http.HandlerFunc(echoRequest))
				up.EnableHTTP2 = test.http2
				up.StartTLS()
				t.Cleanup(up.Close)
				done := make(chan *record, 1)
				begin := func(context.Context, *Call) (*Edit, error) { return &Edit{Recorder: &record{done: done}}, nil }
				g, err := newGateway(gatewayOptions{OpenAI: Upstream{URL: up.URL + "/v1"}, Mode: mode, Middleware: middleware(begin)})
				if err != nil {
					t.Fatal(err)
				}
				trust(g, up)
				s, c := serveTest(t, g)
				for _, body := range []string{"small", large} {
					res, got := do(t, c, http.MethodPost, s.URL()+"/v1/chat/completions?a=b%2F", body)
					want := "data: " + test.proto + " " + strings.TrimPrefix(up.URL, "https://") + " /v1/chat/completions?a=b%2F\n\ndata: " + body + "\n\n"
					if res.StatusCode != 200 || got != want || res.Trailer.Get("X-Sum") != strconv.Itoa(len(body)) {
						t.Errorf("got %d %.200q, trailer %v", res.StatusCode, got, res.Trailer)
					}
					if mode == ModeObserve {
						if rec := <-done; rec.String() != want || rec.err != nil {
							t.Errorf("recorded %.200q, %v", rec.String(), rec.err)
						}
					}
				}
			})
		}
	}
}

// TestUntrustedUpstream: a certificate that nobody vouches for is no upstream.
func TestUntrustedUpstream(t *testing.T) {
	t.Parallel()
	up := httptest.NewUnstartedServer(http.HandlerFunc(echoRequest))
	up.Config.ErrorLog = log.New(io.Discard, "", 0)
	up.StartTLS()
	t.Cleanup(up.Close)
	s, c := open(t, up.URL, gatewayOptions{})
	if res, body := do(t, c, http.MethodGet, s.URL()+"/v1/models", ""); res.StatusCode != http.StatusBadGateway || res.Header.Get(headerError) != "upstream_unreachable" {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

// TestHTTP2StreamsAreForwarded: over one HTTP/2 connection, many streams at the same time pass each event at once, and a cut
// stream is cut for the client.
func TestHTTP2StreamsAreForwarded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	next := make(chan struct{})
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-next
		if r.URL.Query().Has("cut") {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "last")
	}))
	up.EnableHTTP2 = true
	up.StartTLS()
	t.Cleanup(up.Close)
	g, err := newGateway(gatewayOptions{OpenAI: Upstream{URL: up.URL}})
	if err != nil {
		t.Fatal(err)
	}
	trust(g, up)
	s, c := serveTest(t, g)
	const streams = 300 // more than the 250 streams that a server accepts on one connection
	var begun, ended sync.WaitGroup
	begun.Add(streams)
	for i := range streams {
		ended.Go(func() {
			path := "/v1/responses"
			if i%10 == 0 {
				path += "?cut"
			}
			res, err := c.Get(s.URL() + path)
			if err != nil {
				t.Error(err)
				begun.Done()
				return
			}
			defer res.Body.Close()
			first := make([]byte, len("first"))
			_, err = io.ReadFull(res.Body, first)
			begun.Done()
			rest, restErr := io.ReadAll(res.Body)
			if err != nil || string(first) != "first" || (i%10 == 0) != (restErr != nil) || i%10 != 0 && string(rest) != "last" {
				t.Errorf("stream %d: got %q %v, then %q %v", i, first, err, rest, restErr)
			}
		})
	}
	begun.Wait()
	close(next)
	ended.Wait()
}

// TestUpstreamEncodings: chunked and compressed responses reach the client as the upstream sends them, also in a mode that
// records them.
func TestUpstreamEncodings(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("an answer ", 1000)
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		var out io.Writer = w
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			defer zw.Close()
			out = zw
		}
		if !r.URL.Query().Has("chunked") && out == w {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		}
		_, _ = io.WriteString(out, text[:100])
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(out, text[100:])
	})
	done := make(chan *record, 1)
	begin := func(context.Context, *Call) (*Edit, error) { return &Edit{Recorder: &record{done: done}}, nil }
	s, c := open(t, url, gatewayOptions{Middleware: middleware(begin)})
	for _, mode := range []Mode{ModeOff, ModeObserve} {
		for _, encoding := range []string{"", "gzip", "gzip, br"} {
			for _, query := range []string{"", "?chunked"} {
				header := []string{headerMode, string(mode)}
				if encoding != "" {
					header = append(header, "Accept-Encoding", encoding)
				}
				res, body := do(t, c, http.MethodPost, s.URL()+"/v1/chat/completions"+query, "{}", header...)
				sent := body
				if encoding != "" {
					zr, err := gzip.NewReader(strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					data, err := io.ReadAll(zr)
					if err != nil {
						t.Fatal(err)
					}
					body = string(data)
				}
				declared := query == "" && encoding == ""
				if body != text || (res.Header.Get("Content-Encoding") == "gzip") != (encoding != "") || (res.ContentLength >= 0) != declared {
					t.Errorf("%s, %q, %q: got %d bytes, length %d, headers %v", mode, encoding, query, len(body), res.ContentLength, res.Header)
				}
				if mode == ModeObserve {
					if rec := <-done; rec.String() != sent || rec.err != nil {
						t.Errorf("%s, %q, %q: recorded %d bytes, %v", mode, encoding, query, rec.Len(), rec.err)
					}
				}
			}
		}
	}
}

// TestUpstreamPathPrefix: a path of the upstream takes the place of /v1, or precedes it for Anthropic. An encoded path stays encoded.
func TestUpstreamPathPrefix(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RequestURI()) })
	for _, test := range []struct{ base, path, want string }{
		{"/openai/deployments/x", "/v1/chat/completions?api-version=2", "/openai/deployments/x/chat/completions?api-version=2"},
		{"/api/v1/", "/v1/chat/completions", "/api/v1/chat/completions"},
		{"/a%2Fb", "/v1/models/c%3Ad", "/a%2Fb/models/c%3Ad"},
		{"/proxy", "/anthropic/v1/messages", "/proxy/v1/messages"},
		{"/proxy/v1", "/v1/messages/count_tokens", "/proxy/v1/messages/count_tokens"},
	} {
		s, c := open(t, url+test.base, gatewayOptions{})
		if res, body := do(t, c, http.MethodPost, s.URL()+test.path, "{}"); res.StatusCode != 200 || body != test.want {
			t.Errorf("%s %s: got %d %q, want %q", test.base, test.path, res.StatusCode, body, test.want)
		}
	}
}

// Environment of TestThroughProxy: a process reads its proxies from the environment once, so each case is a process.
const proxyCaseEnv, proxyUpstreamEnv = "DEBRIEF_TEST_PROXY_CASE", "DEBRIEF_TEST_PROXY_UPSTREAM"

// forwardProxy is an HTTP proxy that counts its requests and connections. It connects everything to one server, so that names that
// do not exist work.
type forwardProxy struct {
	upstream string // host:port
	mu       sync.Mutex
	seen     []string
}

func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.seen = append(p.seen, r.Method+" "+r.Host)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		transport := &http.Transport{DisableKeepAlives: true}
		rewrite := func(pr *httputil.ProxyRequest) { pr.Out.URL.Host, pr.Out.Host = p.upstream, pr.In.Host }
		(&httputil.ReverseProxy{Rewrite: rewrite, Transport: transport}).ServeHTTP(w, r)
		return
	}
	up, err := new(net.Dialer).DialContext(r.Context(), "tcp", p.upstream)
	if err != nil {
		http.Error(w, "unreachable", http.StatusBadGateway)
		return
	}
	defer up.Close()
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer down.Close()
	_, _ = io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { _, _ = io.Copy(up, buffered) }()
	_, _ = io.Copy(down, up)
}

// TestThroughProxy: HTTP_PROXY, HTTPS_PROXY and NO_PROXY apply to upstreams.
func TestThroughProxy(t *testing.T) {
	if name := os.Getenv(proxyCaseEnv); name != "" {
		callThroughProxy(t)
		return
	}
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(echoRequest))
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(echoRequest))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(roots, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, variable string
		server         *httptest.Server
		upstream       string // URL of the upstream, which only the proxy can reach
		noProxy        string
		want           string // seen by the proxy
		status         int
	}{
		{"HTTP_PROXY", "HTTP_PROXY", plain, "http://provider.example", "", "POST provider.example", 200},
		{"HTTPS_PROXY", "HTTPS_PROXY", secure, "https://example.com", "", "CONNECT example.com:443", 200},
		{"HTTPS_PROXY is not for HTTP", "HTTPS_PROXY", plain, "http://provider.invalid", "", "", 502},
		{"NO_PROXY", "HTTP_PROXY", plain, "http://provider.invalid", ".invalid", "", 502},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := &forwardProxy{upstream: test.server.Listener.Addr().String()}
			proxy := httptest.NewServer(p)
			defer proxy.Close()
			cmd := exec.Command(os.Args[0], "-test.run", "^TestThroughProxy$")
			cmd.Env = append(os.Environ(), proxyCaseEnv+"="+strconv.Itoa(test.status), proxyUpstreamEnv+"="+test.upstream, "SSL_CERT_FILE="+roots,
				"HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=", "no_proxy=", "NO_PROXY="+test.noProxy, test.variable+"="+proxy.URL)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if got := strings.Join(p.seen, ", "); got != test.want {
				t.Errorf("the proxy got %q, want %q", got, test.want)
			}
		})
	}
}

// callThroughProxy makes a call in a process with proxies in its environment.
func callThroughProxy(t *testing.T) {
	base := os.Getenv(proxyUpstreamEnv)
	s, c := open(t, base, gatewayOptions{})
	res, body := do(t, c, http.MethodPost, s.URL()+"/v1/chat/completions", "a body")
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	if strconv.Itoa(res.StatusCode) != os.Getenv(proxyCaseEnv) || res.StatusCode == 200 && !strings.HasSuffix(body, " "+u.Host+" /v1/chat/completions\n\ndata: a body\n\n") {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
}

package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/tokens"
	"debrief/playbook"
)

var mayCall = []tokens.Scope{tokens.Context}

// tokenTable is a set of tokens by secret.
type tokenTable map[string]*tokens.Token

func (s tokenTable) Find(secret string) (*tokens.Token, bool) {
	t, ok := s[secret]
	return t, ok
}

// TestTokens checks the status, and the keys that reach the upstream.
func TestTokens(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+"|"+r.Header.Get("X-Api-Key"))
	})
	known := tokenTable{"all": {Name: "a", Scopes: mayCall}, "sales": {Name: "s", Scopes: mayCall, Books: []playbook.Book{"sales"}}, "reader": {Name: "r"}}
	var log bytes.Buffer
	o := gatewayOptions{Tokens: known, Log: zerolog.New(zerolog.SyncWriter(&log))}
	o.OpenAI.Key, o.Anthropic.Key = "own-openai", "own-anthropic"
	withKeys, c := open(t, url, o)
	without, _ := open(t, url, gatewayOptions{Tokens: known})
	vendor, _ := open(t, strings.Replace(url, "http:", "https:", 1), gatewayOptions{Tokens: known})
	free, _ := open(t, url, gatewayOptions{OpenAI: Upstream{Key: "own-openai"}})
	for _, test := range []struct {
		name   string
		server *Server
		path   string
		header []string
		status int
		want   string // keys, or the code of the error
	}{
		{"no token", withKeys, "/v1/models", nil, 401, "token_required"},
		{"another key", withKeys, "/v1/models", []string{"Authorization", "Bearer sk-1"}, 401, "token_required"},
		{"wrong token and a right one as key", withKeys, "/v1/models", []string{headerToken, "x", "Authorization", "Bearer all"}, 401, "token_required"},
		{"no token, Anthropic", withKeys, "/v1/messages", nil, 401, "token_required"},
		{"token as bearer", withKeys, "/v1/models", []string{"Authorization", "bearer all"}, 200, "Bearer own-openai|"},
		{"token as key", withKeys, "/v1/messages", []string{"X-Api-Key", "all"}, 200, "|own-anthropic"},
		{"token as bearer, Anthropic", withKeys, "/anthropic/v1/models", []string{"Authorization", "Bearer all"}, 200, "|own-anthropic"},
		{"token without the right to calls", withKeys, "/v1/models", []string{headerToken, "reader"}, 403, "scope_forbidden"},
		{"two tokens", withKeys, "/v1/models", []string{headerToken, "all", "Authorization", "Bearer reader"}, 200, "Bearer own-openai|"},
		{"two tokens, no key", vendor, "/v1/messages", []string{headerToken, "all", "X-Api-Key", "reader"}, 401, "key_required"},
		{"token and key", withKeys, "/v1/models", []string{headerToken, "all", "Authorization", "Bearer sk-1"}, 200, "Bearer sk-1|"},
		{"token twice", withKeys, "/v1/models", []string{headerToken, "all", "Authorization", "Bearer all"}, 200, "Bearer own-openai|"},
		{"token only", withKeys, "/v1/models", []string{headerToken, "all"}, 200, "Bearer own-openai|"},
		{"another scheme", withKeys, "/v1/models", []string{headerToken, "all", "Authorization", "Basic eA=="}, 200, "Basic eA==|"},
		{"default book", withKeys, "/v1/models", []string{headerToken, "sales"}, 403, "book_forbidden"},
		{"other book", withKeys, "/books/legal/v1/models", []string{headerToken, "sales"}, 403, "book_forbidden"},
		{"own book", withKeys, "/books/sales/v1/models", []string{headerToken, "sales"}, 200, "Bearer own-openai|"},
		{"own book in the header", withKeys, "/v1/models", []string{headerToken, "sales", headerBook, "sales"}, 200, "Bearer own-openai|"},
		{"path before header", withKeys, "/books/legal/v1/models", []string{headerToken, "sales", headerBook, "sales"}, 403, "book_forbidden"},
		{"no key for the token", vendor, "/v1/models", []string{"Authorization", "Bearer all"}, 401, "key_required"},
		{"no key for a local server", without, "/v1/models", []string{"Authorization", "Bearer all"}, 200, "|"},
		{"no key", without, "/v1/models", []string{headerToken, "all"}, 200, "|"},
		{"without tokens, no key", free, "/v1/models", nil, 200, "Bearer own-openai|"},
		{"without tokens, a key", free, "/v1/models", []string{"Authorization", "Bearer sk-1", headerToken, "x"}, 200, "Bearer sk-1|"},
		{"without tokens, Anthropic", free, "/v1/messages", nil, 200, "|"},
		{"invalid book", free, "/books/a%20b/v1/models", nil, 400, "invalid_book"},
		{"invalid book in the header", free, "/v1/models", []string{headerBook, "a b"}, 400, "invalid_book"},
		{"invalid mode", free, "/v1/models", []string{headerMode, "on"}, 400, "invalid_mode"},
		{"invalid score", free, "/v1/models", []string{headerScore, "7"}, 400, "invalid_outcome"},
		{"score against label", free, "/v1/models", []string{headerScore, "1", headerLabel, "failure"}, 400, "invalid_outcome"},
		{"dots", free, "/v1/../v2", nil, 400, "invalid_path"},
		{"escaped dots", free, "/v1/a/%2e%2E/b", nil, 400, "invalid_path"},
		{"elsewhere", free, "/v2/models", nil, 404, "unknown_path"},
		{"no book", free, "/books//v1/models", nil, 404, "unknown_path"},
		{"longer", free, "/v10/models", nil, 404, "unknown_path"},
	} {
		res, body := do(t, c, "POST", test.server.URL()+test.path, "{}", test.header...)
		got := body
		if res.StatusCode >= 400 {
			got = res.Header.Get(headerError)
		}
		if res.StatusCode != test.status || got != test.want {
			t.Errorf("%s: got %d %s; want %d %s", test.name, res.StatusCode, body, test.status, test.want)
		}
		if test.status == 400 && strings.Contains(test.want, "book") && !strings.Contains(body, test.want[len("invalid_"):]) {
			t.Errorf("%s: %s does not name the field", test.name, body)
		}
	}
	c.CloseIdleConnections()
	if err := withKeys.Close(patience); err != nil { // stops logging
		t.Error(err)
	}
	for _, secret := range []string{"all", "sales\"", "sk-1", "own-"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q: %s", secret, log.String())
		}
	}
}

// TestBrowsers: a page whose name resolves to 127.0.0.1 sends its own name as Host, and its own origin.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(http.ResponseWriter, *http.Request) {})
	mounts := map[string]http.Handler{"/": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	local, c := open(t, url, gatewayOptions{Mounts: mounts})
	guarded, _ := open(t, url, gatewayOptions{Mounts: mounts, Tokens: tokenTable{"t": {Scopes: mayCall}}})
	for _, test := range []struct {
		path, header, value string
		want                int
	}{
		{"/v1/models", "Host", "127.0.0.1", 200},
		{"/v1/models", "Host", "127.1.2.3:80", 200},
		{"/v1/models", "Host", "LocalHost:8080", 200},
		{"/v1/models", "Host", "[::1]", 200},
		{"/v1/models", "Host", "[::ffff:127.0.0.1]:1", 200},
		{"/v1/models", "Host", "evil.example", 421},
		{"/v1/models", "Host", "127.0.0.1.evil.example", 421},
		{"/v1/models", "Host", "192.168.0.1", 421},
		{"/v1/models", "Host", "0.0.0.0", 421},
		{"/console", "Host", "evil.example", 421},
		{"/v1/models", "Origin", "http://localhost:3000", 200},
		{"/v1/models", "Origin", "https://127.0.0.1", 200},
		{"/v1/models", "Origin", "https://evil.example", 403},
		{"/v1/models", "Origin", "null", 403},
		{"/v1/models", "Origin", "http://%zz", 403},
		{"/console", "Origin", "https://evil.example", 403},
		{"/v1/models", "Sec-Fetch-Site", "cross-site", 403},
		{"/v1/models", "Sec-Fetch-Site", "none", 200},
		{"/console", "Sec-Fetch-Site", "cross-site", 200}, // a link to a page
	} {
		res, body := do(t, c, "GET", local.URL()+test.path, "", test.header, test.value)
		if res.StatusCode != test.want || (test.want != 200) != (res.Header.Get(headerError) != "") {
			t.Errorf("%s with %s %s: got %d %s, want %d", test.path, test.header, test.value, res.StatusCode, body, test.want)
		}
		if res, body := do(t, c, "GET", guarded.URL()+test.path, "", test.header, test.value, headerToken, "t"); res.StatusCode != 200 {
			t.Errorf("with a token, %s with %s %s: got %d %s", test.path, test.header, test.value, res.StatusCode, body)
		}
	}
}

func TestListenAddress(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(http.ResponseWriter, *http.Request) {})
	used, _ := open(t, url, gatewayOptions{})
	taken := strings.TrimPrefix(used.URL(), "http://")
	for _, test := range []struct {
		addr   string
		tokens tokenFinder
		want   string // beginning of the error
	}{
		{"0.0.0.0:0", nil, "--http: 0.0.0.0:0 is reachable from other machines"},
		{"[::]:0", nil, "--http: "},
		{"0.0.0.0:0", tokenTable{}, ""},
		{":0", nil, ""},
		{"localhost:0", nil, ""},
		{"127.0.0.1", nil, "--http: want HOST:PORT"},
		{taken, nil, "--http: listen tcp " + taken},
	} {
		g, err := newGateway(gatewayOptions{Tokens: test.tokens})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Serve(test.addr, g)
		if errors.Is(err, syscall.EAFNOSUPPORT) {
			continue
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.addr, err, test.want)
		}
		if err == nil {
			if test.addr == ":0" && !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
				t.Errorf("an empty host is %s, want the loopback", s.URL())
			}
			if err := s.Close(patience); err != nil {
				t.Error(err)
			}
		}
	}
	for _, preferred := range []string{"127.0.0.1:0", taken} {
		var log bytes.Buffer
		g, _ := newGateway(gatewayOptions{Log: zerolog.New(&log)})
		s, err := serveAuto(preferred, g)
		if err != nil || s.URL() == used.URL() {
			t.Fatalf("%s: got %v, want a free port", preferred, err)
		}
		if strings.Contains(log.String(), s.URL()) != (preferred == taken) {
			t.Errorf("%s: got log %q, want a warning only for an address in use", preferred, &log)
		}
		if err := s.Close(patience); err != nil {
			t.Error(err)
		}
	}
}

func TestMounts(t *testing.T) {
	t.Parallel()
	seen := make(chan Observation, 1)
	handler := func(name string, status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Handler", name)
			if status != 0 {
				w.WriteHeader(status)
			}
			_, _ = io.WriteString(w, r.Header.Get("X-Request-Id"))
		})
	}
	s, c := open(t, "http://127.0.0.1:1", gatewayOptions{
		Observe: func(o Observation) { seen <- o },
		Mounts: map[string]http.Handler{
			"/api/v1/": handler("api", 201), "/api/v1/special": handler("special", 0), "/healthz": handler("health", 503),
		},
	})
	for _, test := range []struct {
		path, handler string
		status        int
		class         Class
	}{
		{"/api/v1/books", "api", 201, ClassAPI},
		{"/api/v1/special", "special", 200, ClassAPI},
		{"/api/v1/special/", "api", 201, ClassAPI},
		{"/healthz", "health", 503, ClassOther},
		{"/healthz/", "", 404, ClassOther},
		{"/api/v1", "", 404, ClassOther},
	} {
		for _, id := range []string{"mine", "", "with space", strings.Repeat("x", 129)} {
			res, body := do(t, c, "GET", s.URL()+test.path, "", "X-Request-Id", id)
			o, got := <-seen, res.Header.Get("X-Request-Id")
			if res.StatusCode != test.status || res.Header.Get("X-Handler") != test.handler || o.Class != test.class || o.Status != test.status {
				t.Errorf("%s: got %d by %q, %+v", test.path, res.StatusCode, res.Header.Get("X-Handler"), o)
			}
			if got == "" || (got == id) != (id == "mine") || test.handler != "" && body != got {
				t.Errorf("%s: got id %q, body %q for %q", test.path, got, body, id)
			}
		}
	}
}

// FuzzRoute sends any method, path and headers to a gateway with a key. A request that reaches the transport goes to its
// upstream, below its path, and without headers of Debrief.
func FuzzRoute(f *testing.F) {
	for _, seed := range [][4]string{
		{"POST", "/v1/chat/completions?a=b", headerBook, "sales"},
		{"GET", "/books/a%2Fb/anthropic/v1/%2e%2e/x", headerMode, "tail"},
		{"OPTIONS", "*", "Anthropic-Version", "2023-06-01"},
		{"GET", "http://evil.example/v1//x;y", "X-Debrief-", "x"},
		{"GET", "/books/b/v1/a%zz", "Connection", "X-Debrief-Token, Authorization"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	const base = "https://upstream.example/base"
	g, err := newGateway(gatewayOptions{OpenAI: Upstream{base, "key"}, Anthropic: Upstream{base, "key"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, target, name, value string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: "localhost", Header: http.Header{http.CanonicalHeaderKey(name): {value}}, Body: http.NoBody}
		g.proxy.Transport = transport(func(out *http.Request) (*http.Response, error) {
			if out.URL.Scheme != "https" || out.URL.Host != "upstream.example" || out.Host != "" || !strings.HasPrefix(out.URL.EscapedPath(), "/base") {
				t.Errorf("%q: sent to %s, host %s", target, out.URL, out.Host)
			}
			if strings.Contains(out.URL.Path+"/", "/../") || out.URL.RawQuery != u.RawQuery {
				t.Errorf("%q: sent to %s", target, out.URL)
			}
			for name := range out.Header {
				if strings.HasPrefix(name, headerPrefix) {
					t.Errorf("sent the header %s", name)
				}
			}
			return nil, errors.New("done")
		})
		w := &discard{header: http.Header{}}
		g.ServeHTTP(w, r)
		if w.status < 400 || w.header.Get(headerError) == "" {
			t.Errorf("%q: got %d %v", target, w.status, w.header)
		}
	})
}

// transport is an http.RoundTripper as a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// discard is a response writer that keeps the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

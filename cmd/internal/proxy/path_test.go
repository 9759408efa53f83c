package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// decodingFront is a server in front of a provider's services. Like nginx it decodes the path, takes several slashes as one,
// resolves dots, and ends a segment at a semicolon as servlet containers do. It decodes up to three times: a proxy before it
// may have done so.
type decodingFront struct {
	mu   sync.Mutex
	seen []string // method, resolved paths, keys
}

func (f *decodingFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	read := r.URL.EscapedPath()
	var resolved []string
	for range 3 {
		if once, err := url.PathUnescape(read); err == nil {
			read = once
		}
		var segments []string
		for segment := range strings.SplitSeq(strings.ReplaceAll(read, `\`, "/"), "/") {
			segment, _, _ = strings.Cut(segment, ";")
			segments = append(segments, strings.TrimSpace(segment))
		}
		resolved = append(resolved, path.Clean(strings.Join(segments, "/")))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, fmt.Sprintf("%s %s %s%s", r.Method, strings.Join(slices.Compact(resolved), " "), r.Header.Get("Authorization"), r.Header.Get("X-Api-Key")))
}

func (f *decodingFront) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	return seen
}

// TestPathsStayBelowTheBase sends every form of a path that leaves /v1, with a token. None reaches the provider.
func TestPathsStayBelowTheBase(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	front := new(decodingFront)
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	o := gatewayOptions{Tokens: tokenTable{"agent": {Name: "agent", Scopes: mayCall}}}
	o.OpenAI.Key, o.Anthropic.Key = "own-key", "own-key"
	s, _ := open(t, server.URL, o)
	dots := []string{"..", ".", "%2e%2e", ".%2E", "%252e%252e", "%25252e%25252e", "%%32%65.", "..;", "..;a=b", "..%3b", "%2e;x", "..%20", ".%00.", "..%09", "...", "%c0%ae%c0%ae", "%u002e%u002e", "..%ef%bc%8f"}
	slashes := []string{"/", "%2f", "%2F", "%252f", "%25252F", `\`, "%5c", "%255C", "//", "/%2f", "/;/", "%c0%af", "%ef%bc%8f"}
	prefixes := []string{"/v1/", "/v1/models/", "/v1/chat/completions/x%2f..%2f", "/books/b/v1/", "/anthropic/v1/", "/books/b/anthropic/v1/messages/"}
	sent := 0
	for _, prefix := range prefixes {
		for _, dot := range dots {
			for _, slash := range slashes {
				up := dot + slash
				answer := raw(t, s, "GET "+prefix+strings.Repeat(up, 4)+"admin/keys HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+headerToken+": agent\r\n\r\n")
				if !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
					t.Errorf("%s%s: got %.200s", prefix, up, answer)
				}
				sent++
			}
		}
	}
	if seen := front.requests(); len(seen) > 0 {
		t.Errorf("the provider got %d of %d requests, such as %q", len(seen), sent, seen[0])
	}
}

// TestOwnKeyPaths: the gateway's key goes to the paths of model APIs only. A client's own key opens other paths, but telemetry
// never passes.
func TestOwnKeyPaths(t *testing.T) {
	t.Parallel()
	front := new(decodingFront)
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	own := gatewayOptions{Tokens: tokenTable{"agent": {Name: "agent", Scopes: mayCall}}}
	own.OpenAI.Key, own.Anthropic.Key = "own-key", "own-key"
	owner, c := open(t, server.URL, own)
	free, _ := open(t, server.URL, gatewayOptions{})
	token, both := []string{"Authorization", "Bearer agent"}, []string{headerToken, "agent", "Authorization", "Bearer sk-1"}
	for _, test := range []struct {
		server *Server
		path   string
		header []string
		status int
		want   string // request of the provider, or the code of the error
	}{
		{owner, "/v1/chat/completions", token, 200, "POST /v1/chat/completions Bearer own-key"},
		{owner, "/v1//chat/completions", token, 200, "POST /v1/chat/completions Bearer own-key"},
		{owner, "//v1/chat/completions", token, 200, "POST /v1/chat/completions Bearer own-key"},
		{owner, "/books/b//v1/chat/completions", token, 200, "POST /v1/chat/completions Bearer own-key"},
		{owner, "/books/b/anthropic///v1/messages", token, 200, "POST /v1/messages own-key"},
		{free, "//v1//traces", nil, 404, "unknown_path"},
		{owner, "/v1/models/a/b:c", token, 200, "POST /v1/models/a/b:c Bearer own-key"},
		{owner, "/v1/fine_tuning/jobs", token, 200, "POST /v1/fine_tuning/jobs Bearer own-key"},
		{owner, "/anthropic/v1/messages/batches", token, 200, "POST /v1/messages/batches own-key"},
		{owner, "/v1/organization/admin_api_keys", token, 403, "path_forbidden"},
		{owner, "/v1/load_lora_adapter", token, 403, "path_forbidden"},
		{owner, "/v1/modelsx", token, 403, "path_forbidden"},
		{owner, "/v1/", token, 403, "path_forbidden"},
		{owner, "/v1", token, 403, "path_forbidden"},
		{owner, "/books/b/v1/organization/users", token, 403, "path_forbidden"},
		{owner, "/anthropic/v1/organizations/api_keys", token, 403, "path_forbidden"},
		{owner, "/v1/organization/users", both, 200, "POST /v1/organization/users Bearer sk-1"},
		{free, "/v1/load_lora_adapter", nil, 403, "path_forbidden"},
		{free, "/v1/rerank", []string{"Authorization", "Bearer sk-1"}, 200, "POST /v1/rerank Bearer sk-1"},
		{free, "/v1/traces", []string{"Authorization", "Bearer sk-1"}, 404, "unknown_path"},
		{free, "/v1/logs", nil, 404, "unknown_path"},
		{free, "/v1/metrics", nil, 404, "unknown_path"},
		{free, "/v1/Traces/", nil, 404, "unknown_path"},
		{free, "/v1//traces", nil, 404, "unknown_path"},
		{free, "/v1/%74races", nil, 404, "unknown_path"},
		{free, "/anthropic/v1/traces", []string{"X-Api-Key", "k"}, 404, "unknown_path"},
		{free, "/books/b/v1/logs/x", []string{"X-Api-Key", "k"}, 404, "unknown_path"},
		{owner, "/books/b/anthropic/v1/metrics", both, 404, "unknown_path"},
	} {
		res, _ := do(t, c, http.MethodPost, test.server.URL()+test.path, "{}", test.header...)
		got, seen := res.Header.Get(headerError), front.requests()
		if res.StatusCode == 200 {
			got = strings.Join(seen, ", ")
		} else if len(seen) > 0 {
			t.Errorf("%s: refused, but the provider got %q", test.path, seen)
		}
		if res.StatusCode != test.status || got != test.want {
			t.Errorf("%s: got %d %s, want %d %s", test.path, res.StatusCode, got, test.status, test.want)
		}
	}
}

// TestMethods: TRACE, CONNECT and unknown methods do not reach the provider.
func TestMethods(t *testing.T) {
	t.Parallel()
	front := new(decodingFront)
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	s, c := open(t, server.URL, gatewayOptions{OpenAI: Upstream{Key: "own-key"}})
	for _, method := range []string{"TRACE", "CONNECT", "TRACK", "trace", "DEBUG", "PROPFIND"} {
		target := "/v1/models"
		if method == http.MethodConnect {
			target = "localhost:443"
		}
		answer := raw(t, s, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 405 ") || !strings.Contains(answer, "\r\nAllow: GET, ") {
			t.Errorf("%s: got %.300s", method, answer)
		}
	}
	if seen := front.requests(); len(seen) > 0 {
		t.Errorf("the provider got %q", seen)
	}
	for _, method := range methods {
		if res, _ := do(t, c, method, s.URL()+"/v1/models", ""); res.StatusCode != 200 {
			t.Errorf("%s: got %d", method, res.StatusCode)
		}
	}
	if seen := front.requests(); len(seen) != len(methods) {
		t.Errorf("the provider got %q, want all of %q", seen, methods)
	}
}

// TestOtherUpgrades: only an upgrade to WebSocket passes. A tunnel of HTTP/2 would carry requests past every check.
func TestOtherUpgrades(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "upgrade "+r.Header.Get("Upgrade"))
	})
	s, _ := open(t, url, gatewayOptions{})
	for _, name := range []string{"h2c", "HTTP/2.0", "TLS/1.2, websocket", "websocketx"} {
		answer := raw(t, s, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: "+name+"\r\n\r\n")
		if !strings.HasSuffix(answer, "upgrade ") {
			t.Errorf("%s: got %.300q", name, answer)
		}
	}
}

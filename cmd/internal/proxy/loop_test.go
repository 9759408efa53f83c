package proxy

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
)

// TestLoop: two gateways whose upstreams lead to each other, with a proxy between them, answer a call with 508 after one round.
func TestLoop(t *testing.T) {
	t.Parallel()
	var back atomic.Pointer[url.URL] // of the first gateway
	var calls atomic.Int64
	between := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) {
		calls.Add(1)
		pr.SetURL(back.Load())
		pr.Out.Host = ""
	}})
	t.Cleanup(between.Close)
	second, _ := open(t, between.URL, gatewayOptions{})
	var log bytes.Buffer
	seen := make(chan Observation, 8)
	// The token does not come back: the check of loops is before that of tokens.
	first, c := open(t, second.URL(), gatewayOptions{
		Tokens: tokenTable{"agent": {Name: "a", Scopes: mayCall}}, Log: zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.InfoLevel),
		Observe: func(o Observation) { seen <- o },
	})
	target, err := url.Parse(first.URL())
	if err != nil {
		t.Fatal(err)
	}
	back.Store(target)
	for _, path := range []string{"/v1/chat/completions", "/anthropic/v1/messages"} {
		calls.Store(0)
		res, body := do(t, c, http.MethodPost, first.URL()+path, "{}", headerToken, "agent", "Connection", headerHops)
		if res.StatusCode != http.StatusLoopDetected || !strings.Contains(body, "come back to the gateway") || calls.Load() != 1 {
			t.Errorf("%s: got %d %s after %d calls", path, res.StatusCode, body, calls.Load())
		}
		if o := <-seen; o.Error != "loop" || o.Status != http.StatusLoopDetected {
			t.Errorf("%s: observed %+v", path, o)
		}
		<-seen // the first pass
	}
	if n := strings.Count(log.String(), "--upstream-openai"); n != 1 {
		t.Errorf("got %d log lines, want one for both loops: %s", n, &log)
	}
}

// TestManyHops: a chain of other gateways ends, too.
func TestManyHops(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(http.ResponseWriter, *http.Request) {})
	s, c := open(t, url, gatewayOptions{})
	for n, want := range map[int]int{1: 200, maxHops - 1: 200, maxHops: 508} {
		if res, _ := do(t, c, http.MethodGet, s.URL()+"/v1/models", "", headerHops, strings.TrimSuffix(strings.Repeat("x, ", n), ", ")); res.StatusCode != want {
			t.Errorf("%d hops: got %d, want %d", n, res.StatusCode, want)
		}
	}
}

func TestIsOwn(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "http://127.0.0.1:1", gatewayOptions{})
	wide, err := newGateway(gatewayOptions{Tokens: tokenTable{}})
	if err != nil {
		t.Fatal(err)
	}
	everywhere, err := serve("--http", "0.0.0.0:0", wide, wide)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = everywhere.Close(patience) })
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	type test struct {
		host, path string
		own        bool // of the server on the loopback
		anywhere   bool // of the server on all interfaces
	}
	tests := []test{
		{"127.0.0.1", "/v1", true, true},
		{"localhost", "", true, true},
		{"LOCALHOST.", "/books/b/v1", true, true},
		{"127.0.0.2", "/v1", true, true},
		{"[::1]", "/anthropic", true, true},
		{"0.0.0.0", "/v1", true, true},
		{"[::]", "/v1", true, true},
		{"[::ffff:127.0.0.1]", "/v1", true, true},
		{"", "/v1", true, true},
		{name, "/v1", true, true},
		{"192.0.2.1", "/v1", false, false},
		{"provider.invalid", "/v1", false, false},
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			tests = append(tests, test{p.Addr().String(), "/v1", false, true})
		}
	}
	for _, test := range tests {
		for server, want := range map[*Server]bool{s: test.own, everywhere: test.anywhere} {
			port := server.URL()[strings.LastIndexByte(server.URL(), ':'):]
			for _, scheme := range []string{"http://", "https://"} {
				if address := scheme + test.host + port + test.path; server.IsOwn(address) != want {
					t.Errorf("%s, listening at %s: want %v", address, server.URL(), want)
				}
			}
			if server.IsOwn("http://" + test.host + ":1" + test.path) {
				t.Errorf("%s with another port is own", test.host)
			}
		}
	}
	if s.IsOwn("") || s.IsOwn("http://127.0.0.1/v1") || s.IsOwn("%zz") {
		t.Error("an address without the port is own")
	}
}

package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"debrief/events/bus/bustest"
)

// TestMain fails the package if a server or a connection outlives its test.
func TestMain(m *testing.M) {
	bustest.Prepare()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait")) // idle connections to the fake provider
}

// patience is the timeout of a test for expected events.
const patience = 2 * time.Minute

// upstream serves a handler as the model provider until the end of the test, and returns its URL.
func upstream(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// open serves a gateway in front of the upstream, and returns its URL and a client that has no connections left after the
// test.
func open(t testing.TB, url string, o gatewayOptions) (*Server, *http.Client) {
	t.Helper()
	o.OpenAI.URL, o.Anthropic.URL = url, url
	g, err := newGateway(o)
	if err != nil {
		t.Fatal(err)
	}
	return serveTest(t, g)
}

func serveTest(t testing.TB, g *Gateway) (*Server, *http.Client) {
	t.Helper()
	s, err := serve("--http", "127.0.0.1:0", g, g)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, ExpectContinueTimeout: patience, MaxIdleConnsPerHost: 1024}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Close(patience); err != nil {
			t.Error(err)
		}
	})
	client := &http.Client{Transport: transport, Timeout: patience}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, client
}

// do sends a request, and returns the response with its body.
func do(t testing.TB, c *http.Client, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Add(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(data)
}

// raw sends bytes over one connection, and returns everything that the server sends until it closes the connection.
func raw(t testing.TB, s *Server, request string) string {
	t.Helper()
	conn := dial(t, s)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// middleware is a Middleware as a function.
type middleware func(ctx context.Context, c *Call) (*Edit, error)

func (m middleware) Begin(ctx context.Context, c *Call) (*Edit, error) { return m(ctx, c) }

package llm

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	maxReply     = 4 << 20  // bytes of a chat's answer with status 2xx
	maxErrorBody = 64 << 10 // bytes of any other
	maxHead      = 2 << 10  // bytes kept of an answer with status 2xx, to quote from when it makes no sense
)

// exchange is what an attempt looked like on the wire. go-openai shows neither headers nor, in many cases, the status
// or the body of what went wrong, so the transport below writes them down here, and failures are told from this alone.
type exchange struct {
	attempt int    // 0 is the first
	request []byte // goes out in place of what go-openai writes; nil lets that go
	most    int64  // bytes of an answer with status 2xx
	sent    bool
	status  int // 0 when no answer came
	header  http.Header
	body    []byte // the whole of an error, the beginning of a reply
}

// ok says whether the server claims success, which it also does over nonsense.
func (x *exchange) ok() bool { return x.status/100 == 2 }

type exchangeKey struct{}

func (x *exchange) attach(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// recorder is the transport that fills in exchanges. It also bounds every body: go-openai reads errors to their end.
type recorder struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return r.base.RoundTrip(req)
	}
	x.sent = true
	req = req.Clone(req.Context())
	// OpenAI's own clients send the same, for the server's statistics; ours also lets a simulated server fail by plan.
	req.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(x.attempt))
	if x.request != nil {
		_ = req.Body.Close()
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.request)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(x.request))
	}
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.status, x.header = resp.StatusCode, resp.Header
	if x.ok() {
		resp.Body = &quoted{http.MaxBytesReader(nil, resp.Body, x.most), x}
		return resp, nil
	}
	// A status alone says enough, so an error body that is cut or late is as good as a short one.
	x.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(x.body))
	return resp, nil
}

// quoted keeps the beginning of what is read.
type quoted struct {
	io.ReadCloser
	x *exchange
}

func (q *quoted) Read(p []byte) (int, error) {
	n, err := q.ReadCloser.Read(p)
	q.x.body = append(q.x.body, p[:min(n, maxHead-len(q.x.body))]...)
	return n, err
}

// newTransport is net/http's with limits on every step of which the attempt's own timeout is too long a measure, and
// with as many idle connections as there are requests at a time, where the default keeps two.
func newTransport(concurrent int) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           concurrent,
		MaxIdleConnsPerHost:    concurrent,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// newHTTPClient follows no redirects: a POST would arrive as a GET, or its key at another host.
func newHTTPClient(base http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     recorder{base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

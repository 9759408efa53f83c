package openai

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	maxReply     = 4 << 20  // bytes of a chat response with status 2xx
	maxErrorBody = 64 << 10 // bytes of a response with another status
	maxHead      = 2 << 10  // bytes kept of a response with vectors, to quote if it is invalid
)

// exchange is the HTTP exchange of one attempt. go-openai does not expose headers and often neither status nor body
// of an error. The transport below therefore records them, and errors are classified from this record alone.
type exchange struct {
	attempt  int    // 0 is the first
	request  []byte // replaces the body that go-openai encodes; nil keeps that
	maxBody  int64  // maximum bytes of a response with status 2xx
	keptBody int    // bytes of this response that are kept in body
	sent     bool   // the request was encoded and passed to the transport
	status   int    // 0 without a response
	header   http.Header
	body     []byte // the whole body of an error, the beginning of a response with status 2xx
}

// ok reports a status of 2xx. The body may be invalid nevertheless.
func (x *exchange) ok() bool { return x.status/100 == 2 }

// exchangeKey is the key of the exchange in the context of a request.
type exchangeKey struct{}

// recorder is a transport that records exchanges. It also limits every body, because go-openai reads error bodies to
// the end.
type recorder struct{ base http.RoundTripper }

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return r.base.RoundTrip(req)
	}
	x.sent = true
	req = req.Clone(req.Context())
	// OpenAI's clients send this header too. Our simulated server uses it to fail according to a plan.
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
		resp.Body = &prefixReader{http.MaxBytesReader(nil, resp.Body, x.maxBody), x}
		return resp, nil
	}
	// The status alone classifies the error, so a truncated error body is acceptable.
	x.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(x.body))
	return resp, nil
}

// prefixReader copies the beginning of a body to an exchange, while the body is read.
type prefixReader struct {
	io.ReadCloser
	x *exchange
}

func (r *prefixReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.x.body = append(r.x.body, p[:min(n, max(r.x.keptBody-len(r.x.body), 0))]...)
	return n, err
}

// newTransport returns a transport with timeouts for each step, because the timeout of the attempt is too long for
// them. It keeps one idle connection for each concurrent request; net/http keeps two by default.
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

// newHTTPClient returns a client that follows no redirects. A redirect would turn a POST into a GET, or send the key
// to another host.
func newHTTPClient(base http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     recorder{base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

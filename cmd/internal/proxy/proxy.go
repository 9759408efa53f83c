package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/events/config"
)

// serveModel passes a request to its provider. Each request ends with finish, and each request that admit accepts also with endCall.
func (g *Gateway) serveModel(w http.ResponseWriter, r *http.Request, rt route) {
	x := &exchange{began: time.Now(), class: rt.class, route: rt}
	defer g.finish(r, x)
	if r.ContentLength != 0 {
		x.source = g.pace.Wrap(w, r.Body, time.Time{})
		r.Body = x.source
	}
	if f := g.admit(r, x); f != nil {
		g.writeFailure(w, r, x, f)
		return
	}
	defer g.endCall(x)
	if f := g.begin(r, x); f != nil {
		x.failed = errors.New(f.message)
		g.writeFailure(w, r, x, f)
		return
	}
	h := w.Header()
	h["Content-Type"], h["Date"] = nil, nil // the server adds neither if the upstream sends none
	returned := false
	defer func() {
		if !returned && x.code == "" { // the proxy panics to cut a response
			x.code = CodeCut
		}
	}()
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	returned = true
}

// admit checks a request. It sets the book, the mode, the token and the outcome of the exchange, and the key for the upstream.
func (g *Gateway) admit(r *http.Request, x *exchange) (f *failure) {
	if f = checkPath(r.URL.EscapedPath()); f != nil {
		return f
	}
	if f = g.checkHops(r.Header); f != nil { // before authorize: a call that comes back has lost its token at the first hop
		return f
	}
	if x.book, f = bookOf(r, x.route); f != nil {
		return f
	}
	if x.mode, f = g.modeOf(r); f != nil {
		return f
	}
	if f = checkSocket(r, x); f != nil {
		return f
	}
	if x.token, f = g.authorize(r.Header, x.book); f != nil {
		return f
	}
	x.caller = x.token.Caller()
	if f = applyControlHeader(r.Header, x); f != nil {
		return f
	}
	if f = g.readOutcome(r, x); f != nil {
		return f
	}
	return g.setKey(r, x.route)
}

// newProxy returns the proxy that sends requests upstream. It calls rewrite before a request, and modifyResponse or handleError after it.
func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		ModifyResponse: g.modifyResponse,
		ErrorHandler:   g.handleError,
		Transport:      g.transport,
		FlushInterval:  -1, // each chunk at once
		ErrorLog:       stdlog.New(debugLog{g.o.Log}, "", 0),
	}
}

// debugLog logs the errors of ReverseProxy, such as the reason of a cut response. They have addresses, but no paths.
type debugLog struct{ log zerolog.Logger }

func (l debugLog) Write(p []byte) (int, error) {
	l.log.Debug().Str("reason", strings.TrimSpace(string(p))).Msg("proxy")
	return len(p), nil
}

// rewrite makes the request for the upstream. ReverseProxy has removed hop-by-hop headers.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	if err := g.upstreams[x.route.provider].point(pr.Out, x.route.rest, pr.In.URL.RawQuery); err != nil {
		pr.Out.URL.Scheme, pr.Out.URL.Host = "", "" // so the transport refuses the request
	}
	g.rewriteHeader(pr.Out.Header, pr.In.Header)
	if x.edit.Recorder != nil {
		restrictEncodings(pr.Out.Header)
	}
	pr.Out.Trailer = pr.In.Trailer
	rewriteBody(pr.Out, x)
}

// rewriteHeader changes the header for the upstream: in is the header of the client.
func (g *Gateway) rewriteHeader(out, in http.Header) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := in[name]; ok { // ReverseProxy has removed it
			out[name] = values
		}
	}
	for name := range out {
		if strings.HasPrefix(name, headerPrefix) {
			delete(out, name)
		}
	}
	out.Del("Expect") // the server has answered it
	out.Add(headerHops, g.id)
	if !isWebSocket(out) { // another protocol could carry requests that the gateway does not check
		out.Del("Upgrade")
		out.Del("Connection")
	}
}

// rewriteBody sets the body for the upstream: x.body if the gateway holds it, else the streamed body of the client.
func rewriteBody(out *http.Request, x *exchange) {
	if body := x.body; len(body) > 0 {
		out.ContentLength = int64(len(body))
		out.TransferEncoding = nil
		out.Trailer = nil
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	} else if out.Body != nil {
		x.sent = make(chan struct{})
		out.Body = &sentBody{ReadCloser: out.Body, done: x.sent}
	}
}

// sentBody closes a channel when the transport no longer needs a streamed body.
type sentBody struct {
	io.ReadCloser
	once sync.Once
	done chan struct{}
}

func (b *sentBody) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.ReadCloser.Close()
}

// awaitSent waits until the transport has sent a streamed body, for up to g.pace.Window. When a response begins, the server of the
// gateway reads the rest of the client's body and closes it. A transport that still reads this body then fails and cuts the response, even if
// only the end of the body was missing.
func (g *Gateway) awaitSent(ctx context.Context, x *exchange) {
	if x.sent == nil {
		return
	}
	limit := time.NewTimer(g.pace.Window)
	defer limit.Stop()
	select {
	case <-x.sent:
	case <-ctx.Done():
	case <-limit.C:
	}
}

// restrictEncodings leaves only gzip and identity in Accept-Encoding, so that the copy of the response is readable.
func restrictEncodings(h http.Header) {
	values, ok := h["Accept-Encoding"]
	if !ok {
		return
	}
	var kept []string
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		coding, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "identity":
			kept = append(kept, strings.TrimSpace(part))
		}
	}
	if len(kept) == 0 {
		kept = []string{"identity"}
	}
	h.Set("Accept-Encoding", strings.Join(kept, ", "))
}

// modifyResponse adds headers of the gateway to a response, and starts the recorder.
func (g *Gateway) modifyResponse(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	g.awaitSent(res.Request.Context(), x)
	x.respond(res.StatusCode)
	removeSetCookies(res.Header)
	if rec := x.edit.Recorder; rec != nil && res.StatusCode != http.StatusSwitchingProtocols {
		body := &recordedBody{ReadCloser: res.Body, g: g, x: x, left: res.ContentLength}
		ctx, cancel := context.WithTimeout(res.Request.Context(), g.o.Deadline)
		defer cancel()
		g.runGuarded(func() { body.copy = rec.Start(ctx, res.StatusCode, res.Header) })
		res.Body = body
		g.noteDegraded(x)
	}
	for name, values := range x.edit.Header {
		res.Header[name] = values
	}
	if x.degraded.text != "" {
		res.Header.Set(headerDegraded, x.degraded.text)
	}
	return nil
}

// handleError answers a request that got no response from the upstream.
func (g *Gateway) handleError(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	x.failed = err
	f := x.bodyFailure()
	switch {
	case f != nil: // the body of the client is the reason
	case r.Context().Err() != nil: // the client has disconnected
		x.code = CodeCut
		panic(http.ErrAbortHandler)
	default:
		g.o.Log.Warn().Err(err).Str("provider", string(x.route.provider)).Msg("call the model provider")
		f = newFailure(http.StatusBadGateway, "upstream_unreachable", "the model provider is unreachable: check that it runs, and "+upstreamFlags(x.route.provider))
	}
	g.writeFailure(w, r, x, f)
}

// upstreamFlags names the flags with the address of a provider.
func upstreamFlags(p Provider) string {
	flags := "--upstream-" + string(p) + " of the gateway"
	if p == OpenAI {
		flags += ", or --base-url of 'debrief up'"
	}
	return flags
}

// Upstream is the server of a provider.
type Upstream struct {
	// URL is the base URL. For OpenAI its path takes the place of /v1, and an empty path means /v1. For Anthropic /v1 is added to the path,
	// unless the path ends with it.
	URL string
	// Key is the gateway's own API key, for clients that send none. Empty adds no key.
	Key string
}

// target is a parsed Upstream.
type target struct {
	scheme, host string
	path         string // escaped path that takes the place of /v1
	key          string
}

// target parses the settings of an upstream. An error names the field.
func (u Upstream) target(p Provider) (*target, error) {
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return nil, fieldError("URL", "invalid URL") // err contains the URL, which may contain a password
	}
	isHTTP := parsed.Scheme == "http" || parsed.Scheme == "https"
	switch {
	case !isHTTP || parsed.Host == "":
		return nil, fieldError("URL", "must begin with http:// or https:// and name a host")
	case parsed.User != nil:
		return nil, fieldError("URL", "must not contain a user: set the key")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, fieldError("URL", "must have neither a query nor a fragment")
	}
	for _, c := range []byte(u.Key) {
		if c <= ' ' || c > '~' {
			return nil, fieldError("Key", "must contain only visible ASCII characters")
		}
	}
	path := strings.TrimRight(parsed.EscapedPath(), "/")
	lacksVersion := p == Anthropic && !strings.HasSuffix(path, "/v1")
	if lacksVersion || path == "" {
		path += "/v1"
	}
	return &target{scheme: parsed.Scheme, host: parsed.Host, path: path, key: u.Key}, nil
}

func fieldError(field, reason string) error {
	return &config.FieldError{Fields: []string{field}, Err: errors.New(reason)}
}

// point sets the URL of an outgoing request to a path below the target. It keeps the query.
func (t *target) point(out *http.Request, rest, query string) error {
	raw := t.path + rest
	path, err := url.PathUnescape(raw)
	if err != nil {
		return fmt.Errorf("unescape path: %w", err)
	}
	u := *out.URL
	u.Scheme = t.scheme
	u.Host = t.host
	u.Path = path
	u.RawPath = raw
	u.RawQuery = query
	out.URL, out.Host = &u, ""
	return nil
}

// newTransport returns the transport for all upstreams. A response may take any time: only connecting has limits. On HTTP/2,
// pings find dead connections.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		DisableCompression:  true, // otherwise the transport adds Accept-Encoding and decompresses
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
	}
}

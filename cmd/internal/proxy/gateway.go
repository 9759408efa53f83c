package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/body"
	"debrief/events"
	"debrief/events/config"
	"debrief/playbook"
)

// Mode is the treatment of a model call.
type Mode string

const (
	ModeTail    Mode = "tail"    // add bullets to the last user turn, and capture
	ModeSystem  Mode = "system"  // add bullets to the system prompt, and capture
	ModeObserve Mode = "observe" // capture only
	ModeOff     Mode = "off"     // pass through
)

// Valid reports whether the mode is one of the constants.
func (m Mode) Valid() bool {
	switch m {
	case ModeTail, ModeSystem, ModeObserve, ModeOff:
		return true
	}
	return false
}

// gatewayOptions are the options of newGateway. The zero value passes calls unchanged to the public addresses of the providers.
type gatewayOptions struct {
	OpenAI, Anthropic Upstream
	// Tokens finds the tokens of callers. Nil requires no token.
	Tokens tokenFinder
	// Mode is the mode of calls that name none. Default ModeOff.
	Mode Mode
	// Middleware edits and observes model calls. Nil passes them through in every mode.
	Middleware Middleware
	// LeadingScore returns the name of the score that counts in a book if an outcome has several, or "" if none does. Nil means that
	// none does in any book.
	LeadingScore func(context.Context, playbook.Book) (string, error)
	// Deadline is the time limit of Middleware.Begin and of Recorder.Start, and the interval of Recorder.Hold. Default 150 ms.
	Deadline time.Duration
	// Memory limits the bytes of all bodies that the gateway holds for the Middleware. Bodies beyond it pass unmodified. Default 256 MiB.
	Memory int64
	// Mounts are further handlers by path. A path that ends with "/" includes all paths below it; "/{$}" is the root alone. The
	// handlers check tokens themselves.
	Mounts map[string]http.Handler
	// Observe receives every request after its end. Nil disables it. Calls may be concurrent.
	Observe func(Observation)
	// TLS makes Serve accept HTTPS only; nil for HTTP.
	TLS *tls.Config
	Log zerolog.Logger
}

// withDefaults returns the options with defaults in place of zero fields.
func (o gatewayOptions) withDefaults() gatewayOptions {
	o.OpenAI.URL = cmp.Or(o.OpenAI.URL, "https://api.openai.com")
	o.Anthropic.URL = cmp.Or(o.Anthropic.URL, "https://api.anthropic.com")
	o.Mode = cmp.Or(o.Mode, ModeOff)
	o.Deadline = cmp.Or(o.Deadline, 150*time.Millisecond)
	o.Memory = cmp.Or(o.Memory, 256<<20)
	if o.Observe == nil {
		o.Observe = func(Observation) {}
	}
	return o
}

// Observation describes a finished request.
type Observation struct {
	Class      Class
	Book       playbook.Book
	Status     int           // 0 if the client disconnected before a response
	Header     time.Duration // from the request to the headers of the response
	Total      time.Duration // from the request to the end of the response
	Degraded   string        // reason code of X-Debrief-Degraded, or ""
	Error      string        // code of X-Debrief-Error, CodeCut or ""
	Work       bool          // a call of a model that should be captured: see exchange.isWork
	Uncaptured string        // with Work: the reason why the call is not captured, or ""
}

// Gateway handles the requests. It is safe for concurrent use.
type Gateway struct {
	o         gatewayOptions
	upstreams map[Provider]*target
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	origins   *http.CrossOriginProtection
	memory    *body.Memory
	pace      body.Pace
	id        string         // random; identifies the gateway in headerHops
	loopLog   atomic.Int64   // time of the last log message about a loop, in nanoseconds since 1970
	active    sync.WaitGroup // requests, and recorders that store their calls
}

// newGateway returns a gateway. The caller must call Close. An error names the field of an invalid upstream, and contains no key.
func newGateway(o gatewayOptions) (*Gateway, error) {
	o = o.withDefaults()
	g := &Gateway{
		o:         o,
		upstreams: map[Provider]*target{},
		transport: newTransport(),
		origins:   http.NewCrossOriginProtection(),
		memory:    body.NewMemory(o.Memory),
		pace:      body.Pace{Step: 8 << 10, Window: 10 * time.Second},
		id:        string(events.NewID()),
	}
	var invalid config.Errors
	var err error
	g.upstreams[OpenAI], err = o.OpenAI.target(OpenAI)
	invalid.Wrap("OpenAI", err)
	g.upstreams[Anthropic], err = o.Anthropic.target(Anthropic)
	invalid.Wrap("Anthropic", err)
	g.proxy = g.newProxy()
	return g, invalid.Join()
}

// Close waits until ctx ends for requests in progress, and for recorders that store their calls. It closes idle upstream
// connections. Stop the server first.
func (g *Gateway) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		g.active.Wait()
		close(done)
	}()
	defer g.transport.CloseIdleConnections()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close gateway: requests are still in progress: %w", ctx.Err())
	}
}

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.active.Add(1)
	defer g.active.Done()
	failed := checkMethod(r.Method)
	if failed == nil {
		failed = g.checkBrowser(r)
	}
	rt, isModelPath := findRoute(r)
	if failed == nil && isModelPath {
		g.serveModel(w, r, rt)
		return
	}
	x := &exchange{began: time.Now(), class: ClassOther}
	defer g.finish(r, x)
	if failed != nil {
		g.writeFailure(w, r, x, failed)
		return
	}
	g.serveMount(w, r, x)
}

// serveMount serves a request with the mounted handler of the longest path.
func (g *Gateway) serveMount(w http.ResponseWriter, r *http.Request, x *exchange) {
	id := requestID(r.Header.Get("X-Request-Id"))
	r.Header.Set("X-Request-Id", id)
	w.Header().Set("X-Request-Id", id)
	h, class := g.mount(r.URL.Path)
	if h == nil {
		g.writeFailure(w, r, x, newFailure(http.StatusNotFound, "unknown_path", "unknown path"))
		return
	}
	x.class = class
	h.ServeHTTP(&statusWriter{w, x}, r)
	x.respond(http.StatusOK) // without effect if the handler has responded
}

// mount returns the mounted handler of the longest path that matches, or nil.
func (g *Gateway) mount(path string) (h http.Handler, class Class) {
	longest := ""
	for p, mounted := range g.o.Mounts {
		isPath := path == strings.TrimSuffix(p, "{$}")
		isBelow := strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
		if (isPath || isBelow) && len(p) > len(longest) {
			longest, h = p, mounted
		}
	}
	if strings.HasPrefix(longest, "/api/") {
		return h, ClassAPI
	}
	return h, ClassOther
}

// statusWriter records the status of a mounted handler.
type statusWriter struct {
	http.ResponseWriter
	x *exchange
}

func (w *statusWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.x.respond(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the methods of the server's writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

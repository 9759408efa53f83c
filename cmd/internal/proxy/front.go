package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/agents/mcp"
	"debrief/cmd/internal/agents/otlp"
	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/proxy/capture"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/redact"
	"debrief/events/service"
	"debrief/playbook"
	"debrief/playbook/history"
)

const closeGrace = 30 * time.Second // time for which Close waits for open streams

// Options are the options of Listen.
type Options struct {
	program.Gateway
	// OpenAI is the URL of the program's own model, and the upstream if the flag --upstream-openai is not set. Empty is OpenAI's own
	// API.
	OpenAI    string
	OpenAIKey string // the API key for OpenAI
	// Settings are the settings of the program, which the API shows to people.
	Settings program.Effective
	Metrics  *metrics.Metrics
	Health   http.Handler // health checks and metrics of the program; nil: none
	Log      zerolog.Logger
	// TraceQuiet is the time without new spans after which a trace with its root is read. Default: 30 s.
	TraceQuiet time.Duration
}

// Front is a listening gateway.
type Front struct {
	o            Options
	server       *Server
	otlp         *Server     // of --otlp-listen; nil without it
	tokens       *tokens.Set // nil without a file of tokens; the methods of a nil Set permit everything
	traces       *otlp.Handler
	countCapture func(result string) // a capture.Result, or the reason why a response or a trace could not be read

	connected atomic.Pointer[connected] // nil before Connect, and after the stop that it returns
}

// connected is what a gateway has with a connection to NATS.
type connected struct {
	advisor *advisor
	api     http.Handler
	store   *deltalog.Store
	views   *index.Index
}

// Listen starts to pass calls of models through. The caller must call Close. Invalid settings are errors with ExitUsage.
func Listen(o Options) (*Front, error) {
	f := &Front{o: o, countCapture: o.Metrics.Captures()}
	if o.Tokens != "" {
		var err error
		f.tokens, err = tokens.Load(o.Tokens, func(err error) { o.Log.Error().Err(err).Msg("read the changed tokens file") })
		if err != nil {
			return nil, program.Exit(program.ExitUsage, fmt.Errorf("--tokens: %w", err))
		}
		o.Metrics.Calls().WatchTokens(f.tokens.Check)
	}
	o.Metrics.Health(f.health)
	f.traces = otlp.NewHandler(f.tokens)
	g, err := f.gatewayOptions()
	if err != nil {
		return nil, err
	}
	handler, err := newGateway(g)
	if err != nil {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("gateway: %w", err))
	}
	if f.server, err = Serve(o.HTTP, handler); err != nil {
		return nil, program.Exit(program.ExitUsage, errors.Join(err, handler.Close(context.Background())))
	}
	if o.OTLPListen != "" && o.OTLPListen != "none" {
		if f.otlp, err = serveOnly("--otlp-listen", o.OTLPListen, handler, otlp.Path, otlp.LogsPath); err != nil {
			return nil, program.Exit(program.ExitUsage, errors.Join(err, f.Close()))
		}
	}
	if err := f.checkUpstreams(); err != nil {
		return nil, program.Exit(program.ExitUsage, errors.Join(err, f.Close()))
	}
	return f, nil
}

// gatewayOptions returns the options of the gateway. It reads the keys of the providers and the certificate.
func (f *Front) gatewayOptions() (g gatewayOptions, err error) {
	g = gatewayOptions{
		OpenAI:       Upstream{URL: cmp.Or(f.o.UpstreamOpenAI, f.o.OpenAI)},
		Anthropic:    Upstream{URL: f.o.UpstreamAnthropic},
		Mode:         Mode(f.o.GatewayMode),
		Middleware:   f,
		LeadingScore: f.leadingScore,
		Deadline:     f.o.AdviceTimeout,
		Mounts:       f.mounts(),
		Log:          f.o.Log,
	}
	if g.OpenAI.Key, g.Anthropic.Key, err = f.o.Keys(); err != nil {
		return g, err
	}
	if f.o.UpstreamOpenAI == "" { // the upstream is f.o.OpenAI, to which this key belongs
		g.OpenAI.Key = cmp.Or(g.OpenAI.Key, f.o.OpenAIKey)
	}
	if g.TLS, err = f.o.TLS(f.o.Log); err != nil {
		return g, err
	}
	if f.tokens != nil { // without tokens g.Tokens must be nil
		g.Tokens = f.tokens
	}
	observe := f.o.Metrics.Gateway()
	g.Observe = func(x Observation) {
		if x.Work {
			f.o.Metrics.Calls().Add(x.Uncaptured)
			f.o.Metrics.GatewayCall(x.Book, x.Uncaptured).Inc()
		}
		observe(string(x.Class), x.Status, x.Header, x.Degraded, x.Error)
	}
	return g, nil
}

// health returns the health of a playbook, or nil without a connection. The health of an unknown playbook is zero.
func (f *Front) health(ctx context.Context, b playbook.Book) *history.Health {
	c := f.connected.Load()
	if c == nil {
		return nil
	}
	days, err := c.views.Logs.Health(ctx, b, time.Now())
	switch {
	case err != nil:
		return nil
	case len(days) == 0:
		return new(history.Health)
	}
	return &days[len(days)-1].Health
}

// checkUpstreams returns an error if the address of a model is the gateway's own: each call would call the gateway again.
func (f *Front) checkUpstreams() error {
	for _, setting := range []struct{ name, address string }{
		{"--upstream-openai", f.o.UpstreamOpenAI},
		{"--upstream-anthropic", f.o.UpstreamAnthropic},
		{"--base-url (DEBRIEF_BASE_URL, OPENAI_BASE_URL)", f.o.OpenAI},
	} {
		if setting.address != "" && f.server.IsOwn(setting.address) {
			return fmt.Errorf("%s: %s is the gateway's own address, for agents only: set the address of the model's server", setting.name, redact.Address(setting.address))
		}
	}
	return nil
}

// URL returns the URL of the gateway, without a path.
func (f *Front) URL() string { return f.server.URL() }

// TracesURL returns the URL of --otlp-listen, without a path, or "" without it.
func (f *Front) TracesURL() string {
	if f.otlp == nil {
		return ""
	}
	return f.otlp.URL()
}

// Close waits for open streams, up to closeGrace.
func (f *Front) Close() error {
	var err error
	if f.otlp != nil {
		err = f.otlp.Close(closeGrace)
	}
	return errors.Join(err, f.server.Close(closeGrace))
}

// errNotConnected is the reason to pass a call unchanged before Connect.
var errNotConnected = errors.New("no NATS server is connected")

// Begin implements Middleware.
func (f *Front) Begin(ctx context.Context, c *Call) (*Edit, error) {
	if connected := f.connected.Load(); connected != nil {
		return connected.advisor.Begin(ctx, c)
	}
	return nil, errNotConnected
}

// leadingScore returns the leading score of a book.
func (f *Front) leadingScore(ctx context.Context, b playbook.Book) (string, error) {
	c := f.connected.Load()
	if c == nil {
		return "", errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.store.LeadingScore(ctx, b)
}

// mounts returns the handlers beside the model APIs.
func (f *Front) mounts() map[string]http.Handler {
	alive := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "alive") })
	apiHandler := http.HandlerFunc(f.serveAPI)
	mounts := map[string]http.Handler{
		"/livez":    alive,
		"/readyz":   alive, // always, because calls pass without a NATS server, too
		"/clients/": http.StripPrefix("/clients/", api.Clients()),
		"/api/":     apiHandler,
		mcp.Path:    mcp.NewHandler(apiHandler),
		otlp.Path:   f.traces, otlp.LogsPath: f.traces,
	}
	if f.o.Health != nil {
		mounts["/healthz"], mounts["/metrics"] = http.HandlerFunc(f.serveHealth), http.HandlerFunc(f.serveHealth)
	}
	site := console.New(console.Options{API: apiHandler, Log: f.o.Log})
	for _, path := range console.Paths {
		mounts[path] = site
	}
	return mounts
}

// serveHealth serves the health checks and the metrics to tokens that may read all playbooks: both name them.
func (f *Front) serveHealth(w http.ResponseWriter, r *http.Request) {
	switch t, err := f.tokens.Of(r.Header, r.RemoteAddr); {
	case err != nil:
		w.Header().Set("WWW-Authenticate", `Bearer realm="debrief"`)
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case !t.Allows(tokens.Read):
		http.Error(w, fmt.Sprintf("token %q does not have the scope %q", t.Name, tokens.Read), http.StatusForbidden)
	case len(t.Books) > 0:
		http.Error(w, fmt.Sprintf("token %q permits some playbooks only, and this page has figures of all: use a token without --books", t.Name), http.StatusForbidden)
	default:
		f.o.Health.ServeHTTP(w, r)
	}
}

func (f *Front) serveAPI(w http.ResponseWriter, r *http.Request) {
	c := f.connected.Load()
	if c == nil {
		api.Unavailable(w, r, errNotConnected)
		return
	}
	c.api.ServeHTTP(w, r)
}

// Connect adds advice, capture and the API. The backend builds contexts and stores reports. After stop the gateway only passes calls
// through, as before Connect.
func (f *Front) Connect(ctx context.Context, conn *bus.Conn, backend service.Backend) (stop func()) {
	count := func(r capture.Result) { f.countCapture(string(r)) }
	runs := capture.New(conn.NATS(), conn.JetStream(), backend, capture.Config{Idle: f.o.RunIdle, Count: count, Log: f.o.Log})
	views := index.New(conn, f.o.Metrics.Prices())
	withRunIDs := referencing{backend, runs} // accepts feedback by the id of a captured run
	options := api.Options{Tokens: f.tokens, Conn: conn, Index: views, Settings: f.o.Settings, Log: f.o.Log, OnResponse: f.o.Metrics.Endpoint(metrics.HTTP)}
	advisor := newAdvisor(backend, runs, conn, f.countCapture, f.o.Log)
	f.connected.Store(&connected{advisor: advisor, api: api.New(withRunIDs, options), store: deltalog.New(conn.JetStream()), views: views})
	traces := otlp.New(conn, backend, otlp.Config{Quiet: f.o.TraceQuiet, LeadingScore: f.leadingScore, Count: f.countCapture, Log: f.o.Log})
	f.traces.SetStore(traces)
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { runs.Run(ctx) })
	background.Go(func() { views.Run(ctx) })
	background.Go(func() { traces.Run(ctx) })
	return func() {
		f.connected.Store(nil)
		f.traces.SetStore(nil)
		advisor.Close()
		cancel()
		background.Wait()
	}
}

// referencing is a backend that also accepts feedback on captured runs: its execution may be any id of a capture.Ref.
type referencing struct {
	service.Backend
	runs *capture.Store
}

// Feedback implements service.Backend.
func (b referencing) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	return b.runs.Feedback(ctx, r)
}

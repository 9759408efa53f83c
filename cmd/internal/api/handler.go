package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/body"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/playbook/text"
)

// Limits of the requests of one handler.
const (
	maxInFlight = 64               // requests at a time
	maxWaiting  = 256              // requests at a time that wait for a worker
	maxStreams  = 256              // streams of events at a time
	timeout     = 10 * time.Second // of a request; a context waits up to 5 s for a minimum version

	reconnectWait = 2 * time.Second // of a read while the connection is lost; a restart of the server takes less
)

// handler serves the routes. It is safe for concurrent use.
type handler struct {
	routes  []route
	mux     *http.ServeMux // of routes
	agents  service.Backend
	conn    *bus.Conn         // nil: only the routes of agents
	index   *index.Index      // nil without conn
	store   *deltalog.Store   // logs of the playbooks; nil without conn
	texts   *deltalog.Texts   // of shown bullets; nil without conn
	program program.Effective // settings
	tokens  *tokens.Set       // nil: no token is required, and requests must name the loopback
	// commandToken is the token of every request to a handler inside a command. Nil: requests are authenticated.
	commandToken *tokens.Token
	origins      *http.CrossOriginProtection
	bodies       body.Reader
	limits       limits
	observe      service.Observer

	// A channel of slots has an element for each request in progress: of most routes, of those that wait, and of streams of events.
	slots, waitSlots, streamSlots chan struct{}

	openStreams sync.Map // *atomic.Int32: the number of streams of events, by the name of the token
	log         zerolog.Logger
}

// Options are the options of New.
type Options struct {
	// Tokens are the named tokens. Nil requires none, and accepts only requests that name the loopback.
	Tokens *tokens.Set
	// CommandToken is the token of every request to a handler that only this process calls. Nil: requests are authenticated.
	CommandToken *tokens.Token
	// Conn is the connection to the streams and buckets. Nil serves only contexts, executions and feedback.
	Conn *bus.Conn
	// Index has the executions, logs and changes in memory. The caller runs it; its end ends the streams of events. Required with Conn.
	Index *index.Index
	// Settings are the settings of the program, for people.
	Settings program.Effective
	Log      zerolog.Logger
	// OnResponse is called for each response. The verb is the label of the route in the metrics, "" for a route without one and for an
	// unknown path. Nil disables it.
	OnResponse service.Observer
}

// limits are the limits of requests.
type limits struct {
	body     time.Duration // for reading the body
	response time.Duration // from the headers to the end of the response, without the wait for a worker

	pace   body.Pace // of bodies
	memory int64     // maximum bytes of all bodies that are read or handled
}

var defaultLimits = limits{
	body: 30 * time.Second, response: time.Minute, pace: body.Pace{Step: 8 << 10, Window: 2 * time.Second}, memory: 128 << 20,
}

// New returns the handler of the paths below /api/v1/. The agents' backend builds contexts and stores reports. The handler sets the
// deadlines of its requests, and clears them, so that the server needs none.
func New(agents service.Backend, o Options) http.Handler { return newHandler(agents, o, defaultLimits) }

func newHandler(agents service.Backend, o Options, lim limits) *handler {
	h := &handler{
		agents: agents, conn: o.Conn, index: o.Index, program: o.Settings,
		tokens: o.Tokens, commandToken: o.CommandToken, origins: http.NewCrossOriginProtection(),
		bodies: body.Reader{Memory: body.NewMemory(lim.memory), Pace: lim.pace, Timeout: lim.body}, limits: lim,
		slots: make(chan struct{}, maxInFlight), waitSlots: make(chan struct{}, maxWaiting), streamSlots: make(chan struct{}, maxStreams),
		observe: o.OnResponse, log: o.Log,
	}
	routes := append(agentRoutes(), indexRoute(), identityRoute(), openAPIRoute())
	if h.conn != nil {
		h.store = deltalog.New(h.conn.JetStream())
		h.texts = h.store.Texts()
		routes = slices.Concat(
			routes, bookRoutes(), bulletRoutes(), versionRoutes(), reviewRoutes(), resultRoutes(), executionRoutes(), editRoutes(), planRoutes(),
			runRoutes(), operateRoutes(), activityRoutes(), erasureRoutes(), []route{markRoute(), taskRoute(), tokenRoute()},
		)
	}
	slices.SortStableFunc(routes, func(a, b route) int { return strings.Compare(a.path, b.path) })
	h.routes = routes
	h.mux = h.newMux()
	return h
}

// response is the response to a request.
type response struct {
	status int
	body   []byte
	kind   string // content type
	sent   bool   // the response is written already: a stream of events, which has ended
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// handle serves a request for a route: it sets the deadlines, and writes and records the response. rt is nil for an unknown path, and for a
// path that has only routes of other methods, which allowed lists.
func (h *handler) handle(w http.ResponseWriter, r *http.Request, rt *route, allowed []string) {
	began := time.Now()
	requestID := requestIDOf(r.Header)
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(began.Add(h.limits.response + waitOf(rt))) // a test may have no connection
	if r.ContentLength != 0 {
		_ = control.SetReadDeadline(began.Add(h.limits.body)) // also for a body that is discarded
	}
	defer func() {
		_ = control.Flush()
		_ = control.SetWriteDeadline(time.Time{})
	}()
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	resp, retryAfter := h.respond(w, r, rt, allowed, requestID)
	if resp.sent {
		h.record(r, rt, http.StatusOK, requestID, time.Since(began))
		return
	}
	header.Set("X-Request-Id", requestID)
	header.Set("Cache-Control", "no-store")
	if retryAfter != "" {
		header.Set("Retry-After", retryAfter)
	}
	if resp.body != nil {
		header.Set("Content-Type", resp.kind)
		header.Set("Content-Length", strconv.Itoa(len(resp.body)))
	}
	w.WriteHeader(resp.status)
	_, _ = w.Write(resp.body) // ignore the error: the client has disconnected
	h.record(r, rt, resp.status, requestID, time.Since(began))
}

// record logs a response and reports it to the metrics. rt is nil for an unknown path.
func (h *handler) record(r *http.Request, rt *route, status int, requestID string, took time.Duration) {
	verb := ""
	if rt != nil {
		verb = rt.verb
	}
	h.log.Debug().Str("method", text.Clip(r.Method, 16)).Str("path", text.Clip(r.URL.Path, 64)).Str("request", requestID).
		Int("status", status).Dur("took", took).Msg("request")
	if h.observe != nil {
		h.observe(verb, status, took)
	}
}

// respond returns the response to a request, also for an error, and the value of Retry-After, "" for none. rt and allowed are
// those of handle.
func (h *handler) respond(w http.ResponseWriter, r *http.Request, rt *route, allowed []string, requestID string) (resp response, retryAfter string) {
	resp, err := h.serve(w, r, rt, allowed)
	if err == nil {
		return resp, ""
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		err = readError(err)
	}
	p, retryAfter := newProblem(err)
	if of, ok := errors.AsType[*unknownFieldError](err); ok && p.Status == http.StatusBadRequest && p.Field != of.name {
		p.Detail += fmt.Sprintf("; unknown field %q", of.name)
	}
	if p.Status == http.StatusInternalServerError {
		h.log.Error().Err(err).Str("request", requestID).Str("route", rt.name).Msg("request failed")
	}
	return response{status: p.Status, body: p.encode(requestID), kind: "application/problem+json"}, retryAfter
}

// serve checks a request, reads its body and runs its route.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, rt *route, allowed []string) (response, error) {
	token, err := h.authenticate(w, r)
	if err != nil {
		return response{}, err
	}
	switch {
	case rt == nil && allowed != nil:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return response{}, service.NewError(http.StatusMethodNotAllowed, "want "+strings.Join(allowed, " or "))
	case rt == nil:
		return response{}, &statusError{status: http.StatusNotFound, code: CodeNoRoute, text: "unknown path: GET " + prefix + "/ lists the routes"}
	}
	c := &call{
		ctx: bus.ContextWithTrace(r.Context(), r.Header.Get(events.HeaderTrace)), handler: h, route: rt, token: token, path: r.PathValue,
		query: r.URL.Query(), header: r.Header, remote: r.RemoteAddr, reply: w.Header(),
	}
	if err := errors.Join(c.authorize(), c.checkQuery()); err != nil {
		return response{}, err
	}
	hasBody := rt.in != nil && (r.ContentLength != 0 || !rt.optionalBody)
	if hasBody {
		held, err := h.bodies.Read(w, r, rt.max)
		defer h.bodies.Memory.Release(held.Room)
		if err != nil {
			return response{}, err
		}
		c.body = held.Data
	}
	if rt.stream != nil {
		return h.serveLive(c, w, r)
	}
	return h.run(c)
}

// run runs the route of a call. It returns service.ErrBusy if too many requests are in progress.
func (h *handler) run(c *call) (response, error) {
	slots := h.slots
	if c.route.waits {
		slots = h.waitSlots
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return response{}, service.ErrBusy
	}
	if c.handler.commandToken == nil { // a command has no time limit: a person interrupts it
		var cancel context.CancelFunc
		c.ctx, cancel = context.WithTimeout(c.ctx, timeout+waitOf(c.route))
		defer cancel()
	}
	if err := c.awaitServer(); err != nil {
		return response{}, err
	}
	reply, err := c.runSafely()
	if err != nil && c.isOfUnknownBook(err) {
		err = c.bookNotFound()
	}
	if err != nil && len(c.unknown) > 0 {
		err = &unknownFieldError{err, c.unknown[0]}
	}
	if err != nil {
		return response{}, err
	}
	if raw, ok := reply.(json.RawMessage); ok {
		return response{status: http.StatusOK, body: raw, kind: "application/json"}, nil
	}
	body, err := encode(reply, c.unknown)
	return response{status: cmp.Or(c.status, c.route.status), body: body, kind: "application/json"}, err
}

// unknownFieldError is the error for a body with an unknown field, which may be a misspelled one that the error says is missing.
type unknownFieldError struct {
	error
	name string
}

func (e *unknownFieldError) Unwrap() error { return e.error }

// awaitServer waits up to reconnectWait for a lost connection to the NATS server if the route reads from the server. Otherwise a page
// would wait for the timeouts of all its reads. It returns nats.ErrDisconnected if there is still no connection.
func (c *call) awaitServer() error {
	rt := c.route
	readsServer := rt.method == http.MethodGet && rt.scope != "" && !rt.offline
	if !readsServer || c.handler.conn == nil {
		return nil
	}
	nc := c.handler.conn.NATS()
	end := time.Now().Add(reconnectWait)
	for !nc.IsConnected() {
		if time.Now().After(end) {
			return nats.ErrDisconnected
		}
		if err := events.Sleep(c.ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// runSafely runs the route. A panic becomes an error of this request only.
func (c *call) runSafely() (reply any, err error) {
	defer func() {
		if v := recover(); v != nil {
			// Without the value, which may contain data of the client.
			reply, err = nil, fmt.Errorf("panic (%T)\n%s", v, debug.Stack())
		}
	}()
	return c.route.run(c)
}

// waitOf returns the time that a route may take in addition to the limits of all routes. rt may be nil.
func waitOf(rt *route) time.Duration {
	if rt != nil && rt.waits {
		return maxWait
	}
	return 0
}

// maxWait is the maximum time that a request waits for a worker: the default time-out of a model at a local server.
const maxWait = 10 * time.Minute

// encode returns the JSON of a reply, with a warning for each unknown field of the request.
func encode(reply any, unknown []string) ([]byte, error) {
	body, err := encodeJSON(reply)
	if err != nil || len(unknown) == 0 {
		return body, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	var warnings []string
	_ = json.Unmarshal(fields["warnings"], &warnings) // most replies have none
	for _, name := range unknown {
		warnings = append(warnings, fmt.Sprintf("unknown field %q ignored", name))
	}
	if fields["warnings"], err = json.Marshal(warnings); err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return encodeJSON(fields)
}

// encodeJSON returns the JSON of a value.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // prompts contain many < and >
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return out.Bytes(), nil
}

// validID is the form of the ids of requests that clients choose.
var validID = regexp.MustCompile(`^[A-Za-z0-9._:+/=@-]{1,128}$`)

// requestIDOf returns the id of a request: that of the client, or a random one.
func requestIDOf(h http.Header) string {
	if id := h.Get("X-Request-Id"); validID.MatchString(id) {
		return id
	}
	return string(events.NewID())
}

// routeList is the list of routes.
type routeList struct {
	Service string        `json:"service"`
	Version string        `json:"version" doc:"Semantic version of the requests and replies."`
	OpenAPI string        `json:"openapi" doc:"Path of the OpenAPI document."`
	Routes  []listedRoute `json:"routes"`
}

// listedRoute is a route.
type listedRoute struct {
	Method   string       `json:"method"`
	Path     string       `json:"path"`
	Scope    tokens.Scope `json:"scope,omitempty" doc:"Scope that a token needs; empty: none."`
	Summary  string       `json:"summary"`
	MaxBytes int64        `json:"max_bytes,omitempty" doc:"Maximum size of the body."`
}

// indexRoute lists the routes.
func indexRoute() route {
	r := get("/", "listRoutes", "List the routes.", func(c *call) (*routeList, error) {
		out := &routeList{Service: service.Name, Version: service.Version, OpenAPI: prefix + "/openapi.json"}
		for _, r := range c.handler.routes {
			e := listedRoute{Method: r.method, Path: prefix + r.path, Scope: r.scope, Summary: r.summary}
			if r.in != nil {
				e.MaxBytes = r.max
			}
			out.Routes = append(out.Routes, e)
		}
		return out, nil
	})
	r.scope = ""
	return r
}

package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/operate/metrics"
	"debrief/events/bus"
	"debrief/events/liveness"
)

// Health contains the flags of programs with health checks.
type Health struct {
	Health     string        `help:"Address for /livez, /readyz, /healthz and /metrics. The default host is 127.0.0.1." placeholder:"HOST:PORT"`
	Probe      bool          `help:"Check whether the program with this --health address is ready, and quit: exit code 0 if it is." env:"-" rare:""`
	AlarmAfter time.Duration `help:"Report red after this time with waiting work and no success, or 3 x the p95 if longer." rare:""`
}

// SetDefaults sets the default of the library.
func (h *Health) SetDefaults() { h.AlarmAfter = liveness.Floor }

// Metrics returns the metrics of a program of this version.
func Metrics(program string) *metrics.Metrics { return metrics.New(program, Version()) }

// Serve answers 'debrief status' over NATS. With an address, it also answers health checks over HTTP:
//
//	/livez    200 while the process runs
//	/readyz   200 while the roles work, events can be stored, and the server answers about the streams of the roles
//	/healthz  503 if learning is red, which includes a store that accepts nothing; else 200
//	/metrics  for Prometheus
//
// Bodies contain no payloads. Beyond loopback they contain no text of models either. Without an address, a program with another
// HTTP server can serve the checks there: also gets them, if it is not nil.
func (h Health) Serve(conn *bus.Conn, m *metrics.Metrics, program string, roles int, also *Checks, log zerolog.Logger) (stop func(), err error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	watch := liveness.NewProcess(conn, program, h.AlarmAfter)
	watch.Gateway(m.Calls())
	closed, err := watch.ServeReports()
	if err == nil && h.Health == "" && also != nil {
		m.Watch(conn, watch)
		also.set(checks{conn, watch, m, roles, true}.mux())
	}
	if err != nil || h.Health == "" {
		return closed, err
	}
	host, port, err := net.SplitHostPort(h.Health)
	if err == nil && host == "" {
		host = "127.0.0.1" // package net would listen on every interface
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", net.JoinHostPort(host, port))
	}
	if err != nil {
		closed()
		return nil, Exit(ExitUsage, fmt.Errorf("--health: %w", err))
	}
	m.Watch(conn, watch)
	srv := &http.Server{
		Handler:           checks{conn, watch, m, roles, l.Addr().(*net.TCPAddr).IP.IsLoopback()}.mux(),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("serve health checks")
		}
	}()
	return func() {
		closed()
		_ = srv.Close()
	}, nil
}

// Check returns an error for an invalid setting.
func (h Health) Check() error {
	if h.AlarmAfter < 0 {
		return Exit(ExitUsage, fmt.Errorf("--alarm-after: must be above 0, got %s", h.AlarmAfter))
	}
	if h.Health == "" {
		return nil
	}
	if _, err := net.ResolveTCPAddr("tcp", h.Health); err != nil {
		return Exit(ExitUsage, fmt.Errorf("--health: want host:port, such as 127.0.0.1:8080: %w", err))
	}
	return nil
}

// Checks serves the health checks of a program on another server of it. The zero value has none yet.
type Checks struct{ handler atomic.Pointer[http.Handler] }

func (c *Checks) set(h http.Handler) { c.handler.Store(&h) }

// ServeHTTP implements http.Handler. Without checks the status is 503.
func (c *Checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := c.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	http.Error(w, "unavailable: no NATS server is connected, or --health has another address", http.StatusServiceUnavailable)
}

// checks serves the health checks.
type checks struct {
	conn     *bus.Conn
	watch    *liveness.Process
	metrics  *metrics.Metrics
	roles    int
	loopback bool // reachable from this machine only
}

func (c checks) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", c.ready)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		report := c.report(r)
		c.respond(w, report.Level != liveness.Red, report)
	})
	mux.Handle("GET /metrics", c.metrics.Handler())
	return mux
}

// answerTimeout limits the requests of a readiness check.
const answerTimeout = 2 * time.Second

func (c checks) ready(w http.ResponseWriter, r *http.Request) {
	states := append([]bus.RoleHealth{}, c.conn.Health.Roles()...) // an empty list, not null, without roles
	ready := len(states) >= c.roles && c.conn.StoreError() == nil  // fewer roles: still starting
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	unanswered := c.conn.CheckStreams(ctx)
	for i := range states {
		if err := unanswered[states[i].Role]; err != nil && states[i].Healthy() {
			states[i].State, states[i].Reason, states[i].Since = bus.Unavailable, err.Error(), time.Now()
		}
		ready = ready && states[i].Healthy()
		if !c.loopback {
			states[i].Reason = ""
		}
	}
	c.respond(w, ready, states)
}

func (c checks) respond(w http.ResponseWriter, well bool, body any) {
	w.Header().Set("Content-Type", "application/json")
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (c checks) report(r *http.Request) liveness.Report {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	report := c.watch.Check(ctx)
	if !c.loopback {
		report = report.Public()
	}
	return report
}

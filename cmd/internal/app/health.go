package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/metrics"
	"debrief/events/bus"
	"debrief/events/liveness"
)

// Health are the flags of who says how it is.
type Health struct {
	Health     string        `help:"Address for health checks and metrics: /livez, /readyz, /healthz, /metrics. A host that is left out is 127.0.0.1." placeholder:"HOST:PORT"`
	Probe      bool          `help:"Ask the program that has this --health whether it is ready, and quit: 0 if it is. For containers, which have no shell." env:"-"`
	AlarmAfter time.Duration `help:"Health is red when work waits and none goes well for so long, or for three times what is usual, whichever is longer." default:"60s"`
}

// Metrics are those of a program, of this version.
func Metrics(program string) *metrics.Metrics { return metrics.New(program, Version()) }

// Serve answers health checks over HTTP, if there is an address, and 'debrief status' over NATS:
//
//	/livez    200 while the process runs
//	/readyz   200 while the roles are at work and events can be stored
//	/healthz  200 unless learning is red: then 503; it is red at once while nothing can be stored
//	/metrics  for Prometheus
//
// Bodies hold no payloads; beyond loopback they do not hold what models said either.
func (h Health) Serve(conn *bus.Conn, m *metrics.Metrics, program string, roles int, log zerolog.Logger) (stop func(), err error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	watch := liveness.Watch(conn, program, h.AlarmAfter)
	closed, err := watch.Answer()
	if err != nil || h.Health == "" {
		return closed, err
	}
	host, port, err := net.SplitHostPort(h.Health)
	if err == nil && host == "" {
		host = "127.0.0.1" // not every interface, as it would be in package net
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
			log.Error().Err(err).Msg("health checks")
		}
	}()
	return func() {
		closed()
		_ = srv.Close()
	}, nil
}

// Check reports settings that cannot be.
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

// checks answers health checks.
type checks struct {
	conn    *bus.Conn
	watch   *liveness.Process
	metrics *metrics.Metrics
	roles   int
	private bool // nobody else can ask
}

func (c checks) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", c.ready)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		report := c.report(r)
		c.answer(w, report.Level != liveness.Red, report)
	})
	mux.Handle("GET /metrics", c.metrics.Handler())
	return mux
}

func (c checks) ready(w http.ResponseWriter, _ *http.Request) {
	states := append([]bus.RoleHealth{}, c.conn.Health()...) // [], not null, without roles
	ready := len(states) >= c.roles && c.conn.Store() == nil // fewer: they are only starting
	for i := range states {
		ready = ready && states[i].Healthy()
		if !c.private {
			states[i].Reason = ""
		}
	}
	c.answer(w, ready, states)
}

func (c checks) answer(w http.ResponseWriter, well bool, body any) {
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
	if !c.private {
		report = report.Public()
	}
	return report
}

package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/operate/metrics"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/playbook"
)

// Health contains the flags of programs with health checks.
type Health struct {
	Health     string        `help:"Address for /livez, /readyz, /healthz and /metrics. The default host is 127.0.0.1." placeholder:"HOST:PORT"`
	Probe      bool          `help:"Check whether the program with this --health address is ready, and quit: exit code 0 if it is." env:"-" rare:""`
	AlarmAfter time.Duration `help:"Report red after this time with waiting work and no success, or 3 x the p95 if longer." rare:""`

	Figures
}

func (h *Health) SetDefaults() { h.AlarmAfter = liveness.Floor }

// MetricsWithoutFigures returns the metrics of a program of this version, with no figures of playbooks. It is for checks and tests: a program
// with the flags calls Figures.Metrics.
func MetricsWithoutFigures(program string) *metrics.Metrics {
	return metrics.New(program, Version(), metrics.Figures{})
}

// HealthOptions describes the program whose health Health.Serve reports.
type HealthOptions struct {
	Program string
	Roles   int // number of roles that must work before the program is ready; 0 for a program without roles
	Metrics *metrics.Metrics
	Handler *HealthHandler // serves the checks if the flag --health has no address; nil if the program has no other HTTP server
	Log     zerolog.Logger
}

// Serve answers 'debrief status' over NATS. With an address, it also answers health checks over HTTP:
//
//	/livez    200 while the process runs
//	/readyz   200 while the roles work, events can be stored, and the server answers about the streams of the roles
//	/healthz  503 if learning is red, which includes a store that accepts nothing; else 200
//	/metrics  for Prometheus
//
// Bodies contain no payloads. Beyond loopback they contain no text of models either.
func (h Health) Serve(conn *bus.Conn, o HealthOptions) (stop func(), err error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	watch := liveness.NewProcess(conn, o.Program, h.AlarmAfter)
	watch.Gateway(o.Metrics.Calls())
	stopReports, err := watch.ServeReports()
	if err != nil {
		return nil, err
	}
	c := checks{conn: conn, watch: watch, metrics: o.Metrics, roles: o.Roles}
	if h.Health == "" {
		if o.Handler != nil {
			o.Metrics.Watch(conn, watch)
			c.showReasons = true // the other server asks for a token
			o.Handler.checks.Store(c.mux())
		}
		return stopReports, nil
	}
	l, err := ListenTCP(h.Health)
	if err != nil {
		stopReports()
		return nil, Exit(ExitUsage, fmt.Errorf("--health: %w", err))
	}
	o.Metrics.Watch(conn, watch)
	c.showReasons = l.Addr().(*net.TCPAddr).IP.IsLoopback()
	stopChecks := c.serve(l, o.Log)
	return func() {
		stopReports()
		stopChecks()
	}, nil
}

// serve starts an HTTP server for the checks. It returns the function that stops the server.
func (c checks) serve(l net.Listener, log zerolog.Logger) (stop func()) {
	srv := &http.Server{
		Handler:           c.mux(),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("serve health checks")
		}
	}()
	return func() { _ = srv.Close() }
}

// ListenTCP listens at HOST:PORT. The default host is 127.0.0.1.
func ListenTCP(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("want HOST:PORT: %w", err)
	}
	if host == "" {
		host = "127.0.0.1" // package net would listen on every interface
	}
	return net.Listen("tcp", net.JoinHostPort(host, port))
}

func (h Health) Check() error {
	if h.AlarmAfter < 0 {
		return Exit(ExitUsage, fmt.Errorf("--alarm-after: must not be negative, got %s", h.AlarmAfter))
	}
	if _, err := h.Figures.settings(); err != nil {
		return err
	}
	if h.Health == "" {
		return nil
	}
	if _, err := net.ResolveTCPAddr("tcp", h.Health); err != nil {
		return Exit(ExitUsage, fmt.Errorf("--health: want host:port, such as 127.0.0.1:8080: %w", err))
	}
	return nil
}

// HealthHandler serves the health checks of a program on another HTTP server, such as the gateway. The zero value answers 503, until
// Health.Serve sets the checks.
type HealthHandler struct{ checks atomic.Pointer[http.ServeMux] }

func (h *HealthHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if checks := h.checks.Load(); checks != nil {
		checks.ServeHTTP(w, r)
		return
	}
	http.Error(w, "unavailable: no NATS server is connected, or --health has another address", http.StatusServiceUnavailable)
}

// checks serves the health checks.
type checks struct {
	conn    *bus.Conn
	watch   *liveness.Process
	metrics *metrics.Metrics
	roles   int // number of roles of a program that is ready
	// showReasons is set if only callers on this machine or with a token get the answers. The reasons may have text of models.
	showReasons bool
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

// Time limits of the checks.
const (
	answerTimeout = 2 * time.Second // of the requests to the server, for /readyz
	reportTimeout = 3 * time.Second // of a report, for /healthz
	probeTimeout  = 3 * time.Second // of --probe
)

func (c checks) ready(w http.ResponseWriter, r *http.Request) {
	states := append([]bus.RoleHealth{}, c.conn.Health.Roles()...) // an empty list, not null, without roles
	ready := len(states) >= c.roles && c.conn.StoreError() == nil  // fewer roles: still starting
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	unanswered := c.conn.CheckStreams(ctx)
	for i := range states {
		if err := unanswered[states[i].Role]; err != nil && states[i].Healthy() {
			states[i].State = bus.Unavailable
			states[i].Reason = err.Error()
			states[i].Since = time.Now()
		}
		ready = ready && states[i].Healthy()
		if !c.showReasons {
			states[i].Reason = ""
		}
	}
	c.respond(w, ready, states)
}

func (c checks) respond(w http.ResponseWriter, ok bool, body any) {
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (c checks) report(r *http.Request) liveness.Report {
	ctx, cancel := context.WithTimeout(r.Context(), reportTimeout)
	defer cancel()
	report := c.watch.Check(ctx)
	if !c.showReasons {
		report = report.Public()
	}
	return report
}

// prober is a command that can check the health of another process.
type prober interface {
	probes() bool
	probe(ctx context.Context) error
}

func (h Health) probes() bool { return h.Probe }

// probe checks whether the process with this health address is ready.
func (h Health) probe(ctx context.Context) error {
	if err := h.Check(); err != nil {
		return err
	}
	if h.Health == "" {
		return Exit(ExitUsage, errors.New("--probe: requires --health"))
	}
	host, port, err := net.SplitHostPort(h.Health)
	if err != nil {
		return Exit(ExitUsage, fmt.Errorf("--health: %w", err))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // the default host, and one of all interfaces
	}
	url := "http://" + net.JoinHostPort(host, port) + "/readyz"
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Exit(ExitUsage, fmt.Errorf("--health: %w", err))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s returned %s", url, response.Status)
	}
	return nil
}

// Figures contains the flags of the metrics of playbooks.
type Figures struct {
	Playbooks []string `name:"metrics-playbooks" help:"Playbooks that metrics name, the same for all programs; others are 'other'. Default: default." placeholder:"BOOK,…" rare:"" group:"Metrics"`
	Prices    string   `name:"metrics-prices" help:"File with prices of models, the same for all programs. Default: the built-in table." type:"path" placeholder:"FILE" rare:"" group:"Metrics"`
}

// maxFigures is the maximum number of playbooks that metrics name. Each scrape asks the server for the waiting messages of each.
const maxFigures = 100

// settings returns the configuration of the metrics.
func (f Figures) settings() (cfg metrics.Figures, err error) {
	var errs []error
	if len(f.Playbooks) > maxFigures {
		errs = append(errs, fmt.Errorf("--metrics-playbooks: must be at most %d, got %d", maxFigures, len(f.Playbooks)))
	}
	names := f.Playbooks
	if len(names) == 0 {
		names = []string{string(events.DefaultBook)}
	}
	for _, name := range names {
		b := playbook.Book(name)
		if err := b.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--metrics-playbooks: %w", err))
		}
		if !slices.Contains(cfg.Playbooks, b) { // a repeated label would be an error of each scrape
			cfg.Playbooks = append(cfg.Playbooks, b)
		}
	}
	if cfg.Prices, err = metrics.LoadPrices(f.Prices); err != nil {
		errs = append(errs, fmt.Errorf("--metrics-prices: %w", err))
	}
	return cfg, Exit(ExitUsage, errors.Join(errs...))
}

// Metrics returns the metrics of a program of this version.
func (f Figures) Metrics(program string) (*metrics.Metrics, error) {
	cfg, err := f.settings()
	if err != nil {
		return nil, err
	}
	return metrics.New(program, Version(), cfg), nil
}

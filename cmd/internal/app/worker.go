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

	"debrief/curator"
	"debrief/events/bus"
	"debrief/events/service"
	"debrief/generator"
	"debrief/reflector"
)

// Generator, Reflector and Curator are the flags of the roles.
type (
	Generator struct {
		generator.Config `embed:""`
	}
	Reflector struct {
		reflector.Config `embed:""`
	}
	Curator struct {
		curator.Config `embed:""`
	}
)

// Service is the door for outside agents over NATS.
func Service(conn *bus.Conn, desk *generator.Desk) (closed func(), err error) {
	closed, err = service.Serve(conn.NATS(), desk, *conn.Log())
	if err != nil {
		return nil, fmt.Errorf("serve contexts over NATS: %w", err)
	}
	return closed, nil
}

// Worker is a worker program: flags, connection, health.
type Worker struct {
	Common
	NATS
	Health string `help:"Address for health checks: /livez and /readyz." placeholder:"HOST:PORT"`
}

// Work runs a role until the context ends.
func (w Worker) Work(ctx context.Context, name string, r Role) error {
	log := w.Logger()
	nc, err := w.Dial(name, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	conn, err := w.Open(ctx, nc, log)
	if err != nil {
		return err
	}
	stop, err := ServeHealth(w.Health, conn, 1, log)
	if err != nil {
		return err
	}
	defer stop()
	log.Info().Str("server", nc.ConnectedUrlRedacted()).Msg(name + " is running")
	return Run(ctx, conn, r)
}

// ServeHealth answers health checks: /livez while the process runs, /readyz while so many roles, and the mover of dead
// letters, work. An empty address serves none.
func ServeHealth(addr string, conn *bus.Conn, roles int, log zerolog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, Exit(ExitUsage, fmt.Errorf("--health: %w", err))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		states := conn.Health()
		ready := len(states) > roles // fewer: they are only starting
		for _, s := range states {
			ready = ready && s.Healthy()
		}
		w.Header().Set("Content-Type", "application/json")
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(states)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("health checks")
		}
	}()
	return func() { _ = srv.Close() }, nil
}

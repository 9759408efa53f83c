package app_test

import (
	"context"
	"testing"

	"debrief/cmd/internal/app"
	"debrief/events"
	"debrief/events/natsd"
	"debrief/reflector"
)

func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	srv, err := natsd.Start(natsd.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	w := app.Worker{NATS: app.NATS{NATS: srv.URL()}}
	if err := w.Work(stopped, events.RoleReflector, 1, app.Metrics(events.RoleReflector), "no model", reflector.New(nil, reflector.Config{})); err != nil {
		t.Errorf("got %v, exit code %d, want none", err, app.ExitCode(err))
	}
}

package program_test

import (
	"context"
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus/bustest"
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
	w := program.Worker{NATS: program.NATS{NATS: srv.URL()}}
	if err := w.Work(stopped, events.RoleReflector, program.MetricsWithoutFigures(events.RoleReflector), "no model", bustest.Must(reflector.New(nil, reflector.Config{}))); err != nil {
		t.Errorf("got %v, exit code %d, want none", err, program.ExitCode(err))
	}
}

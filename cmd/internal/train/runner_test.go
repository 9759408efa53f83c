package train

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/natsd"
)

// failingRole is a role that returns an error: at its start, or else when it is stopped.
type failingRole struct {
	program.Role
	atStart bool
	err     error
}

func (r *failingRole) Run(ctx context.Context, _ *bus.Conn) error {
	if !r.atStart {
		<-ctx.Done()
	}
	return r.err
}

// TestRoleThatFails: an error of a role ends the work. After the work it does not replace the result, and the command returns it, too.
func TestRoleThatFails(t *testing.T) {
	t.Parallel()
	roleErr, workErr := errors.New("of the role"), errors.New("of the work")
	untilEnd := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for name, test := range map[string]struct {
		atStart bool
		work    func(context.Context) error
		want    error
	}{
		"at the start":              {true, untilEnd, roleErr},
		"at the end":                {false, func(context.Context) error { return nil }, roleErr},
		"at the end of failed work": {false, func(context.Context) error { return workErr }, workErr},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worked := false
			err := withRoles(t.Context(), nil, []program.Role{&failingRole{atStart: test.atStart, err: roleErr}}, func(ctx context.Context) error {
				worked = true
				return test.work(ctx)
			})
			if !worked || !errors.Is(err, test.want) {
				t.Errorf("got %v, worked %t, want %v", err, worked, test.want)
			}
		})
	}
}

// TestWaitIdleOutlastsARestart waits for a reflector, restarts the server, and lets the waiting message expire.
func TestWaitIdleOutlastsARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir, address := t.TempDir(), "127.0.0.1:0"
	start := func() *natsd.Server {
		server, err := natsd.Start(natsd.Config{Dir: dir, Listen: address, Sync: "always"})
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := start()
	address = strings.TrimPrefix(server.URL(), "nats://")
	nc, err := nats.Connect("nats://"+address, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &events.Execution{Book: "b", ID: events.NewID(), RunID: "run", Question: "q", Started: time.Now()}
	if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- WaitIdle(t.Context(), conn, func(string, bus.Lag) {}, events.RoleReflector) }()
	time.Sleep(100 * time.Millisecond) // it waits
	server.Close()
	time.Sleep(6 * time.Second) // longer than a request waits for its answer
	server = start()
	defer server.Close()
	stream, err := conn.JetStream().Stream(t.Context(), events.StreamExecutions)
	for errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || bus.Unreachable(err) {
		stream, err = conn.JetStream().Stream(t.Context(), events.StreamExecutions)
	}
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("got error %v after a restart of the server", err)
	}
}

package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestRoleWithMissingDependencyIsUnavailable covers roles that take messages and roles that only serve requests. The
// oldest of several outages is shown, and a stopped role stays stopped.
func TestRoleWithMissingDependencyIsUnavailable(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() {
		ended <- conn.Run(ctx, bus.Worker{Role: events.RoleReflector, Handle: func(_ context.Context, batch []*bus.Delivery) []bus.Result {
			return make([]bus.Result, len(batch))
		}})
	}()
	of := func(role string) bus.RoleHealth {
		for _, h := range conn.Health.Roles() {
			if h.Role == role {
				return h
			}
		}
		return bus.RoleHealth{}
	}
	for deadline := time.Now().Add(10 * time.Second); of(events.RoleReflector).State != bus.Running; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the role does not run")
		}
	}
	for _, row := range []struct {
		what, role, lacks string
		why               error
		state             bus.State
		reason            string
	}{
		{"one lack", events.RoleReflector, "notes", errors.New("gone"), bus.Unavailable, "notes: gone"},
		{"another reason", events.RoleReflector, "notes", errors.New("torn"), bus.Unavailable, "notes: torn"},
		{"a second lack", events.RoleReflector, "runs", errors.New("lost"), bus.Unavailable, "notes: torn"},
		{"the first is mended", events.RoleReflector, "notes", nil, bus.Unavailable, "runs: lost"},
		{"all is mended", events.RoleReflector, "runs", nil, bus.Running, ""},
		{"what was never lacked", events.RoleReflector, "runs", nil, bus.Running, ""},
		{"a role that only serves", events.RoleGenerator, "playbook", errors.New("gone"), bus.Unavailable, "playbook: gone"},
		{"which has it again", events.RoleGenerator, "playbook", nil, "", ""},
	} {
		conn.Health.SetDependencyError(row.role, row.lacks, row.why)
		if h := of(row.role); h.State != row.state || h.Reason != row.reason {
			t.Errorf("%s: got %s, %q, want %s, %q", row.what, h.State, h.Reason, row.state, row.reason)
		}
	}
	conn.Health.SetDependencyError(events.RoleReflector, "notes", errors.New("gone"))
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if h := of(events.RoleReflector); h.State != bus.Stopped {
		t.Errorf("stopped: got %s, want %s", h.State, bus.Stopped)
	}
}

// A running role shows why it waits, for as long as it does.
func TestWaitingRoleSaysWhy(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	ctx, stop := context.WithCancel(t.Context())
	var why atomic.Value
	why.Store("the model is slow")
	ended := make(chan error)
	go func() {
		ended <- conn.Run(ctx, bus.Worker{
			Role: events.RoleReflector, Waiting: func() string { return why.Load().(string) },
			Handle: func(_ context.Context, batch []*bus.Delivery) []bus.Result { return make([]bus.Result, len(batch)) },
		})
	}()
	for _, want := range []string{"the model is slow", ""} {
		why.Store(want)
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			all := conn.Health.Roles()
			if len(all) == 1 && all[0].State == bus.Running && all[0].Waiting == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("got %+v, want it to wait because %q", all, want)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if all := conn.Health.Roles(); all[0].Waiting != "" {
		t.Errorf("got %+v of a stopped role", all)
	}
}

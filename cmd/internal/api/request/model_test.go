package request

import (
	"context"
	"errors"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/liveness"
)

func TestModelError(t *testing.T) {
	t.Parallel()
	const g, r = events.RoleGenerator, events.RoleReflector
	bad := bus.RoleHealth{Role: g, State: bus.Unavailable, Reason: "401", Misconfigured: true}
	down := bus.RoleHealth{Role: g, State: bus.Unavailable, Reason: "timeout"}
	good := bus.RoleHealth{Role: g, State: bus.Running}
	serving := bus.RoleHealth{Role: g, State: bus.Serving}
	stopped := bus.RoleHealth{Role: g, State: bus.Stopped}
	report := func(h bus.RoleHealth) liveness.Report {
		return liveness.Report{Roles: []liveness.Role{{RoleHealth: h}}}
	}
	for _, test := range []struct {
		name    string
		own     []bus.RoleHealth
		reports []liveness.Report
		roles   []string
		want    bool
	}{
		{"no worker", nil, nil, []string{g}, false},
		{"this process", []bus.RoleHealth{bad}, nil, []string{r, g}, true},
		{"another process", nil, []liveness.Report{report(bad)}, []string{g}, true},
		{"one of two", nil, []liveness.Report{report(bad), report(good)}, []string{g}, false},
		{"one of two, the other has an outage", nil, []liveness.Report{report(down), report(bad)}, []string{g}, false},
		{"one of two, the other has stopped", []bus.RoleHealth{stopped}, []liveness.Report{report(bad)}, []string{g}, true},
		{"no model", nil, []liveness.Report{report(serving)}, []string{g}, true},
		{"one of two without a model", nil, []liveness.Report{report(serving), report(good)}, []string{g}, false},
		{"an outage", []bus.RoleHealth{down}, nil, []string{g}, false},
		{"a pause", []bus.RoleHealth{{Role: g, State: bus.Paused, Reason: "no JSON"}}, nil, []string{g}, false},
		{"no useful output", []bus.RoleHealth{{Role: g, State: bus.Paused, Reason: "no JSON", Misconfigured: true}}, nil, []string{g}, true},
		{"another role", []bus.RoleHealth{bad}, nil, []string{r}, false},
	} {
		err := modelError(test.own, test.reports, test.roles)
		var e *ModelError
		if errors.As(err, &e) != test.want || e != nil && (e.Role != g || e.Reason == "") {
			t.Errorf("%s: got error %v, want one: %t", test.name, err, test.want)
		}
	}
}

// A caller learns that the model of a generator in another process refuses its key. The generator holds the task.
func TestWithModelCheck(t *testing.T) {
	t.Parallel()
	conn, nc := bustest.Open(t, bus.Policy{})
	caller, err := bus.Attach(nc, bus.Options{}) // without roles
	if err != nil {
		t.Fatal(err)
	}
	closed, err := liveness.NewProcess(conn, "generator", 0).ServeReports()
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- conn.Run(ctx, bus.Worker{Role: events.RoleGenerator, Handle: func(context.Context, []*bus.Delivery) []bus.Result {
			return []bus.Result{{Err: &chat.UnavailableError{Err: errors.New("refused the key (401)"), Permanent: true}}}
		}})
	}()
	defer func() { cancel(bus.ErrInterrupted); <-done }()

	task := &events.Task{Book: "b", ID: "t", Question: "?"}
	checked, stop := WithModelCheck(t.Context(), caller, events.RoleGenerator)
	defer stop()
	_, _, err = Task(checked, caller, task, bus.PublishOptions{})
	var e *ModelError
	if err == nil || !errors.As(context.Cause(checked), &e) || e.Role != events.RoleGenerator {
		t.Errorf("got error %v with cause %v, want a ModelError of the generator", err, context.Cause(checked))
	}
	if lag, err := caller.Consumers.Lag(t.Context(), events.RoleGenerator); err != nil || lag.Idle() {
		t.Errorf("got lag %+v, %v, want the held task", lag, err)
	}
}

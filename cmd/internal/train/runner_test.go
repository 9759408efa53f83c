package train

import (
	"context"
	"errors"
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events/bus"
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

package train

import (
	"context"
	"time"

	"debrief/cmd/internal/program"
	"debrief/events/bus"
)

// startRoles runs roles until stop is called, also after the end of ctx. The context running ends with ctx, when a role fails, and
// after stop.
func startRoles(ctx context.Context, conn *bus.Conn, roles []program.Role) (running context.Context, stop func() error) {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	running, fail := context.WithCancelCause(ctx)
	result := make(chan error, 1)
	go func() {
		err := program.Run(work, conn, roles...)
		if err != nil {
			fail(err)
		}
		result <- err
	}()
	return running, func() error {
		end(bus.ErrInterrupted) // a command that has ended waits for no message
		defer fail(nil)
		return <-result
	}
}

// WaitIdle waits until each role is idle, one after the other: roles are in the order of the pipeline. It calls waiting, unless that is
// nil, about 50 times a second with the lag of the role that it waits for. It returns the error of ctx if that ends first.
func WaitIdle(ctx context.Context, conn *bus.Conn, waiting func(role string, lag bus.Lag), roles ...string) error {
	for _, role := range roles {
		for {
			idle, err := conn.Consumers.Idle(ctx, role)
			if err != nil {
				return err
			}
			if idle {
				break
			}
			if waiting != nil {
				lag, err := conn.Consumers.Lag(ctx, role)
				if err != nil {
					return err
				}
				waiting(role, lag)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

package train

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/simulated"
	"debrief/events/bus"
)

// startRoles runs roles until stop is called, also after the end of ctx. The context runCtx ends with ctx, when a role fails, and
// after stop.
func startRoles(ctx context.Context, conn *bus.Conn, roles []program.Role) (runCtx context.Context, stop func() error) {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	runCtx, fail := context.WithCancelCause(ctx)
	result := make(chan error, 1)
	go func() {
		err := program.Run(work, conn, roles...)
		if err != nil {
			fail(err)
		}
		result <- err
	}()
	return runCtx, func() error {
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

// Each calls do for 0 to n-1, at most atOnce at the same time, until one of them fails. It returns the first error.
func Each(n, atOnce int, do func(i int) error) error {
	all, failed := errgroup.WithContext(context.Background())
	all.SetLimit(atOnce)
	for i := 0; i < n && failed.Err() == nil; i++ {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

// Simulate serves the simulated model until the end of this process and returns its settings. The end of ctx does not stop the model,
// because roles may have calls in flight while they stop.
func Simulate(ctx context.Context, m program.Model, o simulated.Options) (program.Model, error) {
	url, _, err := simulated.Serve(context.WithoutCancel(ctx), "", o)
	if err != nil {
		return program.Model{}, fmt.Errorf("start the simulated model: %w", err)
	}
	return program.Model{Model: simulated.Name, BaseURL: url, Timeout: m.Timeout, MaxConcurrent: m.MaxConcurrent}, nil
}

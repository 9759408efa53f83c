package program

import (
	"context"
	"errors"
	"sync"

	"debrief/events/bus"
)

// Role is a generator, a reflector or a curator.
type Role interface {
	Run(ctx context.Context, conn *bus.Conn) error
}

// Run runs roles until the context ends or a role fails. Then it stops all roles.
func Run(ctx context.Context, conn *bus.Conn, roles ...Role) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(roles))
	var all sync.WaitGroup
	for i, r := range roles {
		all.Go(func() {
			defer stop()
			errs[i] = ignoreStop(ctx, r.Run(ctx, conn))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// ignoreStop returns the error of a role, or nil if the role was cancelled while it started.
func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

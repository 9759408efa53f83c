package app

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

// Run runs roles until the context ends or one of them fails; then all stop.
func Run(ctx context.Context, conn *bus.Conn, roles ...Role) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(roles))
	var all sync.WaitGroup
	for i, r := range roles {
		all.Go(func() {
			defer stop()
			errs[i] = stopped(ctx, r.Run(ctx, conn))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// stopped is what a role returned, nil if that is only that it was told to stop while it began.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

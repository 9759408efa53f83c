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

// Run runs roles, and the mover of dead letters, until the context ends or one of them fails; then all stop.
func Run(ctx context.Context, conn *bus.Conn, roles ...Role) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(roles)+1)
	var all sync.WaitGroup
	for i, r := range roles {
		all.Go(func() {
			defer stop()
			errs[i] = r.Run(ctx, conn)
		})
	}
	all.Go(func() {
		defer stop()
		errs[len(roles)] = conn.RunMover(ctx)
	})
	all.Wait()
	return errors.Join(errs...)
}

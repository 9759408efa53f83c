package natsd

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/direct"
)

// A message with a wrong checksum blocks the server for good as soon as a newer message replaces it. The request that removes the
// old message never releases the lock of its stream, and every later request waits for that lock. Therefore a view that has lost a
// message is deleted at the start: it can be computed again.

// dropDamagedViews deletes each damaged view, and records it as repaired damage. It removes all views from the earlier checkpoint, so
// that the absence of one is not reported as a loss.
func (in *inspector) dropDamagedViews(ctx context.Context, earlier *checkpoint) error {
	for _, view := range in.s.config.Views {
		reason, err := in.dropIfDamaged(ctx, view, earlier)
		if err != nil {
			return err
		}
		delete(earlier.Streams, view)
		if reason == "" {
			continue
		}
		if err := in.addRepaired(view, "%s; it is computed again", reason); err != nil {
			return err
		}
	}
	return nil
}

// dropIfDamaged deletes a damaged view and describes the damage. It returns "" for a view that is whole or does not exist.
func (in *inspector) dropIfDamaged(ctx context.Context, view string, earlier *checkpoint) (reason string, err error) {
	s, err := in.js.Stream(ctx, view)
	if errors.Is(err, jetstream.ErrStreamNotFound) { // the server has not loaded its settings, or has none
		dirs, err := glob(in.dir, "jetstream/*/streams/"+view)
		if err != nil || len(dirs) == 0 {
			return "", err
		}
		return "its settings are unreadable", moveAside(in.dir, dirs[0], view)
	}
	if err != nil {
		return "", fmt.Errorf("open the stream %s: %w", view, err)
	}
	i, err := infoWithLost(ctx, s)
	if err != nil {
		return "", err
	}
	reason = lost(i, earlier.Streams[view], earlier.Exact)
	if reason == "" {
		read := uint64(0)
		err := direct.Read(ctx, in.nc, view, direct.Query{Subject: ">"}, func(direct.Message) error { read++; return nil })
		if err != nil {
			return "", fmt.Errorf("read the stream %s: %w", view, err)
		}
		if read < i.State.Msgs {
			reason = fmt.Sprintf("%d of %d messages are unreadable", i.State.Msgs-read, i.State.Msgs)
		}
	}
	if reason == "" {
		return "", nil
	}
	return reason, in.js.DeleteStream(ctx, view)
}

package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natserr"
)

// checkNewerSchema looks for the oldest dead letter of a newer schema. While there is one, the role is outdated. An error of
// the search does not change the state of the role.
func (w *letterWatch) checkNewerSchema(ctx context.Context) {
	l, err := w.conn.DeadLetters.newerSchema(ctx, w.worker.Role)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Debug().Err(err).Msg("look for dead letters of a newer schema")
		}
		return
	}
	var reason error
	if l != nil {
		reason = fmt.Errorf("dead letter %s: %s: upgrade, then requeue or drop it", l.Handle(), l.Reason)
	}
	w.state.mu.Lock()
	before := w.state.outdated
	w.state.mu.Unlock()
	if fmt.Sprint(reason) == fmt.Sprint(before) { // the same text, or both nil
		return
	}
	w.state.update(func(s *workerState) { s.outdated = reason })
}

// newerSchema returns the oldest dead letter of a role with the code newer-schema, or nil.
func (d *DeadLetters) newerSchema(ctx context.Context, role string) (*Letter, error) {
	s, err := d.js.Stream(ctx, events.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDead, natserr.AsTimeout(ctx, err))
	}
	m, err := d.getMsg(ctx, s, events.StreamDead, 1, jetstream.WithGetMsgSubject(events.DeadCodeSubject(role, events.DeadNewerSchema)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", events.StreamDead, natserr.AsTimeout(ctx, err))
	}
	return d.decodeLetter(ctx, m.Subject, m.Header, m.Data, m.Sequence, m.Time), nil
}

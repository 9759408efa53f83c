package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// newerEvery is how often a role looks for its dead letters of a newer schema, in units of the policy's Hold.
const newerEvery = 5

// watchNewer keeps the role outdated while there is a dead letter of a newer schema, also one that another process or an
// earlier run of the role has stored, until it is requeued or dropped. It returns when the context ends.
func (r *run) watchNewer(ctx context.Context) {
	t := time.NewTicker(newerEvery * r.p.Hold)
	defer t.Stop()
	for {
		r.checkNewer(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// checkNewer looks for the oldest dead letter of a newer schema. Without an answer the state of the role does not change.
func (r *run) checkNewer(ctx context.Context) {
	l, err := r.c.newerLetter(ctx, r.w.Role)
	if err != nil {
		if ctx.Err() == nil {
			r.log.Debug().Err(err).Msg("look for dead letters of a newer schema")
		}
		return
	}
	var why error
	if l != nil {
		why = fmt.Errorf("dead letter %s: %s: upgrade, then requeue or drop it", l.Handle(), l.Reason)
	}
	r.mu.Lock()
	before := r.state.outdated
	r.mu.Unlock()
	if (why == nil) == (before == nil) && (why == nil || why.Error() == before.Error()) {
		return
	}
	r.change(func(s *condition) { s.outdated = why })
}

// newerLetter returns the oldest dead letter of a role with the code newer-schema, or nil.
func (c *Conn) newerLetter(ctx context.Context, role string) (*Letter, error) {
	s, err := c.js.Stream(ctx, events.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDead, unanswered(ctx, err))
	}
	m, err := c.get(ctx, s, events.StreamDead, 1, jetstream.WithGetMsgSubject(events.DeadCodeSubject(role, events.DeadNewerSchema)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", events.StreamDead, unanswered(ctx, err))
	}
	return c.letter(ctx, m.Subject, m.Header, m.Data, m.Sequence, m.Time), nil
}

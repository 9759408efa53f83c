package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// Work is what the server knows of a role: what waits, since when, and how near it is to being lost.
type Work struct {
	Lag
	Oldest   time.Time     `json:"oldest_at"`    // when what waits longest was stored; zero when nothing waits
	Book     playbook.Book `json:"oldest_book"`  // its book
	Acked    time.Time     `json:"acked_at"`     // when the ack floor last moved, zero if it never did since the server began
	Output   time.Time     `json:"output_at"`    // when what the role makes was last stored
	Outputs  uint64        `json:"outputs"`      // how much of it is stored
	Keep     time.Duration `json:"kept_ns"`      // how long its stream keeps a message; 0 is for ever
	Bytes    uint64        `json:"bytes"`        // in its stream
	MaxBytes uint64        `json:"max_bytes"`    // that its stream may hold; 0 is no limit
	Dead     uint64        `json:"dead_letters"` // stored
}

// sink is the stream that a role writes.
func sink(role string) string {
	switch role {
	case events.RoleGenerator:
		return events.StreamExecutions
	case events.RoleReflector:
		return events.StreamReflections
	}
	return events.StreamDeltas
}

// Work asks the server about a role, whether or not a worker of it runs.
func (c *Conn) Work(ctx context.Context, role string) (Work, error) {
	var w Work
	in, err := c.js.Stream(ctx, source(role))
	if err != nil {
		return w, fmt.Errorf("read stream %s: %w", source(role), unanswered(ctx, err))
	}
	cfg, state := in.CachedInfo().Config, in.CachedInfo().State
	w.Keep, w.Bytes, w.MaxBytes = cfg.MaxAge, state.Bytes, uint64(max(cfg.MaxBytes, 0))

	cons, err := c.js.Consumer(ctx, source(role), role)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound): // it never ran
		w.Pending = state.Msgs
	case err != nil:
		return w, fmt.Errorf("read consumer %s: %w", role, unanswered(ctx, err))
	default:
		i := cons.CachedInfo()
		w.Lag = lagOf(i)
		if i.AckFloor.Last != nil {
			w.Acked = *i.AckFloor.Last
		}
	}
	if !w.Idle() {
		m, err := c.get(ctx, in, source(role), max(w.Floor+1, state.FirstSeq), jetstream.WithGetMsgSubject(">"))
		switch {
		case err == nil:
			w.Oldest = m.Time
			_, w.Book, _ = events.ParseSubject(m.Subject)
		case !errors.Is(err, jetstream.ErrMsgNotFound): // settled meanwhile
			return w, fmt.Errorf("read %s after %d: %w", source(role), w.Floor, unanswered(ctx, err))
		}
	}
	out, err := c.js.Stream(ctx, sink(role))
	if err != nil {
		return w, fmt.Errorf("read stream %s: %w", sink(role), unanswered(ctx, err))
	}
	w.Outputs = out.CachedInfo().State.Msgs
	if w.Outputs > 0 {
		w.Output = out.CachedInfo().State.LastTime
	}
	if w.Dead, err = c.countLetters(ctx, role); err != nil {
		return w, err
	}
	return w, nil
}

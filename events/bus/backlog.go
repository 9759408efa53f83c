package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/streams"
	"debrief/playbook"
)

// Backlog is the backlog of a role, as the server reports it.
type Backlog struct {
	Lag
	Oldest     time.Time     `json:"oldest_at"`      // when the oldest waiting message was stored; zero if none waits
	Book       playbook.Book `json:"oldest_book"`    // the book of that message
	LastAck    time.Time     `json:"last_ack_at"`    // when the ack floor last moved; zero if it has not since the server started
	LastOutput time.Time     `json:"last_output_at"` // when the role's output was last stored
	Outputs    uint64        `json:"outputs"`        // number of stored outputs
	Retention  time.Duration `json:"retention_ns"`   // retention of the role's stream; 0 means unlimited
	Bytes      uint64        `json:"bytes"`          // size of its stream
	MaxBytes   uint64        `json:"max_bytes"`      // limit of its stream; 0 means unlimited
	Dead       uint64        `json:"dead_letters"`   // number of dead letters
	// Outdated names a dead letter of a newer schema, and the next step. It is empty without one.
	Outdated string `json:"outdated,omitempty"`
}

// Backlog returns the backlog of a role. No worker of the role needs to run.
func (c *Consumers) Backlog(ctx context.Context, role string) (status Backlog, err error) {
	in, err := c.streamInfo(ctx, streams.Input(role))
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no program of the role ran yet
		return status, nil
	}
	if err != nil {
		return status, err
	}
	status.Retention = in.Config.MaxAge
	status.Bytes = in.State.Bytes
	status.MaxBytes = uint64(max(in.Config.MaxBytes, 0))

	i, err := c.info(ctx, role)
	if err != nil {
		return status, err
	}
	if i == nil {
		status.Pending = in.State.Msgs
	} else {
		status.Lag = lagOf(i)
		if i.AckFloor.Last != nil {
			status.LastAck = *i.AckFloor.Last
		}
	}
	if !status.Idle() {
		m, err := c.nextMsg(ctx, streams.Input(role), ">", max(status.Floor+1, in.State.FirstSeq))
		if err != nil {
			return status, err
		}
		if m != nil { // else acknowledged meanwhile
			status.Oldest = m.Stored()
			_, status.Book, _ = events.ParseSubject(m.Subject)
		}
	}
	out, err := c.streamInfo(ctx, streams.Output(role))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound): // lost: natsd reports this as damage
	case err != nil:
		return status, err
	case out.State.Msgs > 0:
		status.Outputs, status.LastOutput = out.State.Msgs, out.State.LastTime
	}
	if status.Dead, err = c.letters.count(ctx, role); err != nil || status.Dead == 0 {
		return status, err
	}
	newer, err := c.nextMsg(ctx, events.StreamDead, events.DeadCodeSubject(role, events.DeadNewerSchema), 1)
	if newer != nil {
		status.Outdated = fmt.Sprintf("dead letter %s is of a newer program: upgrade, then requeue or drop it", events.NewHandle(newer.Seq, EventID(newer.Header)))
	}
	return status, err
}

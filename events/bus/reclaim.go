package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/natserr"
	"debrief/events/streams"
)

// maxReclaim bounds the number of messages of a role that are reclaimed, starting after its ack floor. The server
// redelivers later messages after their ack wait.
const maxReclaim = 1 << 17

const reclaimTimeout = 5 * time.Second

// Reclaim makes the server redeliver all unacknowledged messages of all roles at once, without the rest of their ack
// wait or backoff. Call it only after a start of the server, when no worker that had taken them runs any more.
// Otherwise work is done twice. A reclaimed message counts as redelivered.
//
// Reclaim sends a nak in the name of the lost worker. From the subject of a nak the server reads only two sequences. The first names
// a message of the stream: the nak has no effect if that message is not in flight. The second names a delivery of the consumer: it
// must be between the ack floor and the last delivery.
func (c *Consumers) Reclaim(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, reclaimTimeout)
	defer stop()
	for _, role := range streams.Roles {
		if err := c.reclaimRole(ctx, role); err != nil {
			return fmt.Errorf("reclaim messages of %s in %s: %w", role, streams.Input(role), natserr.AsTimeout(ctx, err))
		}
	}
	return nil
}

func (c *Consumers) reclaimRole(ctx context.Context, role string) error {
	cons, err := c.js.Consumer(ctx, streams.Input(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil // the role never ran
	}
	if err != nil {
		return err
	}
	i := cons.CachedInfo()
	if i.NumAckPending == 0 {
		return nil
	}
	first, last := i.AckFloor.Stream+1, min(i.Delivered.Stream, i.AckFloor.Stream+maxReclaim)
	ack := func(seq uint64) string {
		return fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", streams.Input(role), role, seq, i.Delivered.Consumer, time.Now().UnixNano())
	}
	for seq := first; seq < last; seq++ {
		if err := c.nc.Publish(ack(seq), nakPayload); err != nil {
			return err
		}
	}
	_, err = c.nc.RequestWithContext(ctx, ack(last), nakPayload) // the server handles them in order, so this answer confirms all
	return err
}

var nakPayload = []byte("-NAK")

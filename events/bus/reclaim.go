package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxReclaimed bounds how much of a stream is asked for again per role, from the first message on that is not settled.
// What lies further on comes after its ack wait.
const maxReclaimed = 1 << 17

const reclaimWait = 5 * time.Second

// Reclaim has everything delivered again at once that was delivered before and is not settled, instead of after its ack
// wait or the end of its back-off. It is for whoever has just started the server and knows that no worker is left of those
// that took it: else work is done twice. It counts as the redelivery that it is.
//
// A message is given back in the name of the worker that is gone. The server looks at nothing in the subject of such an
// answer but the two sequences: that of the message, of which it ignores those that are not in flight, and one of a
// delivery between its ack floor and the last.
func (c *Conn) Reclaim(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, reclaimWait)
	defer stop()
	for _, role := range roles {
		if err := c.reclaim(ctx, role); err != nil {
			return fmt.Errorf("take back the work of %s in %s: %w", role, source(role), unanswered(ctx, err))
		}
	}
	return nil
}

func (c *Conn) reclaim(ctx context.Context, role string) error {
	cons, err := c.js.Consumer(ctx, source(role), role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil // it never ran
	}
	if err != nil {
		return err
	}
	i := cons.CachedInfo()
	if i.NumAckPending == 0 {
		return nil
	}
	first, last := i.AckFloor.Stream+1, min(i.Delivered.Stream, i.AckFloor.Stream+maxReclaimed)
	ack := func(seq uint64) string {
		return fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", source(role), role, seq, i.Delivered.Consumer, time.Now().UnixNano())
	}
	for seq := first; seq < last; seq++ {
		if err := c.nc.Publish(ack(seq), nak); err != nil {
			return err
		}
	}
	_, err = c.nc.RequestWithContext(ctx, ack(last), nak) // they are taken in order, so with the last all are
	return err
}

var nak = []byte("-NAK")

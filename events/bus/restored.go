package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// MetadataRestored is the key in a stream's metadata that holds its last sequence when it was restored from a backup. The
// effects of what is at or under it may be stored already, under ids that the server has forgotten, so all of it counts as
// delivered before.
const MetadataRestored = "debrief-restored"

// bind binds a role's durable, and says up to which sequence its stream was restored.
func (c *Conn) bind(ctx context.Context, role string) (jetstream.Consumer, uint64, error) {
	cons, err := c.consumer(ctx, role)
	if err != nil {
		return nil, 0, err
	}
	s, err := c.js.Stream(ctx, source(role))
	if err != nil {
		return nil, 0, fmt.Errorf("open stream %s: %w", source(role), unanswered(ctx, err))
	}
	text := s.CachedInfo().Config.Metadata[MetadataRestored]
	if text == "" {
		return cons, 0, nil
	}
	restored, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("stream %s: metadata %s: %w", source(role), MetadataRestored, err)
	}
	return cons, restored, nil
}

// Resume makes the durable of a role that has none, so that it goes on after a sequence of its stream. It is for
// restoring: the sequence is one at or under which everything was settled.
func (c *Conn) Resume(ctx context.Context, role string, floor uint64) error {
	switch _, err := c.js.Consumer(ctx, source(role), role); {
	case err == nil:
		return fmt.Errorf("consumer %s of %s: is there already", role, source(role))
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return fmt.Errorf("read consumer %s: %w", role, unanswered(ctx, err))
	}
	cfg := c.durable(role)
	if floor > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, floor+1
	}
	if _, err := c.js.CreateConsumer(ctx, source(role), cfg); err != nil {
		return fmt.Errorf("make consumer %s of %s: %w", role, source(role), unanswered(ctx, err))
	}
	return nil
}

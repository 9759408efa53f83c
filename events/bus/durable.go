package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/natserr"
	"debrief/events/streams"
)

// bindConsumer opens the durable of a role. It also returns the last restored sequence of its stream, or 0.
func (c *Conn) bindConsumer(ctx context.Context, role string) (jetstream.Consumer, uint64, error) {
	cons, err := c.openConsumer(ctx, role)
	if err != nil {
		return nil, 0, err
	}
	s, err := c.js.Stream(ctx, streams.Input(role))
	if err != nil {
		return nil, 0, fmt.Errorf("open stream %s: %w", streams.Input(role), natserr.AsTimeout(ctx, err))
	}
	text := s.CachedInfo().Config.Metadata[streams.MetadataRestored]
	if text == "" {
		return cons, 0, nil
	}
	restored, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("stream %s: metadata %s: %w", streams.Input(role), streams.MetadataRestored, err)
	}
	return cons, restored, nil
}

// CreateDurableAfter creates the durable of a role so that it starts after the sequence floor. It is for a restore: the backup had
// acknowledged everything up to that sequence. It returns an error if the durable exists.
func (c *Conn) CreateDurableAfter(ctx context.Context, role string, floor uint64) error {
	switch _, err := c.js.Consumer(ctx, streams.Input(role), role); {
	case err == nil:
		return fmt.Errorf("create consumer %s of %s: already exists", role, streams.Input(role))
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return fmt.Errorf("read consumer %s: %w", role, natserr.AsTimeout(ctx, err))
	}
	cfg := c.durableConfig(role)
	if floor > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, floor+1
	}
	if _, err := c.js.CreateConsumer(ctx, streams.Input(role), cfg); err != nil {
		return fmt.Errorf("create consumer %s of %s: %w", role, streams.Input(role), natserr.AsTimeout(ctx, err))
	}
	return nil
}

package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/natserr"
	"debrief/events/streams"
)

// PlanStreams returns the steps from the streams of the server to the chosen limits. It changes nothing. See streams.Plan.
func PlanStreams(ctx context.Context, c *Conn, replicas int, chosen []streams.Setting) ([]streams.Step, error) {
	var existing []*jetstream.StreamInfo
	for _, want := range streams.All(1) {
		err := retryUnanswered(ctx, func(ctx context.Context) error {
			s, err := c.js.Stream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil
			}
			if err == nil {
				existing = append(existing, s.CachedInfo())
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", want.Name, natserr.AsTimeout(ctx, err))
		}
	}
	return streams.Plan(max(replicas, 1), existing, chosen)
}

// ApplySteps changes streams as PlanStreams has planned it after Open has created all of them.
func ApplySteps(ctx context.Context, c *Conn, steps []streams.Step) error {
	for _, step := range streams.InOrder(steps) {
		err := retryUnanswered(ctx, func(ctx context.Context) error {
			_, err := c.js.UpdateStream(ctx, step.Config)
			return err
		})
		if err != nil {
			return fmt.Errorf("set the limits of stream %s: %w", step.Stream, explainReserve(natserr.AsTimeout(ctx, err)))
		}
	}
	return nil
}

// explainReserve adds the remedy if the server has no room for a size limit.
func explainReserve(err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && (api.ErrorCode == StorageFull || api.ErrorCode == AccountFull) {
		return fmt.Errorf("the server reserves the size limits of all streams, and they exceed its store (max_file; 'debrief up --max-store'): choose smaller ones, or 0 for no limit (%w)", err)
	}
	return err
}

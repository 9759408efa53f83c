package erase

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/events"
)

// Intervals of Watch.
const (
	watchInterval = 2 * time.Second
	retryInterval = 30 * time.Second // after an error, for example because the user has no right to remove messages
)

// Watch carries out requests that arrive, until the context ends. It logs errors and tries again.
func (e *Eraser) Watch(ctx context.Context, log zerolog.Logger) {
	wait := time.Duration(0)
	for {
		if events.Sleep(ctx, wait) != nil {
			return
		}
		wait = watchInterval
		out, err := e.runIfNeeded(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, nats.ErrConnectionClosed):
			return
		case err != nil:
			log.Warn().Err(err).Msg("cannot erase, will retry")
			wait = retryInterval
		case out != nil:
			log.Info().Int("runs", out.Runs).Int("messages", out.Removed).Int("versions", out.Versions).Int("dead_letters_with_new_ids", out.Letters).Msg("erased")
		}
	}
}

// runIfNeeded calls Run if there is work. Otherwise, or without the bucket of requests, the result is nil.
func (e *Eraser) runIfNeeded(ctx context.Context) (*Result, error) {
	hasWork, err := e.hasWork(ctx)
	switch {
	case errors.Is(err, nats.ErrNoResponders): // the bucket does not exist
		return nil, nil
	case err != nil || !hasWork:
		return nil, err
	}
	return e.Run(ctx)
}

// hasWork reports whether there are requests, or a backup was restored.
func (e *Eraser) hasWork(ctx context.Context) (bool, error) {
	pending, err := e.store.Requests(ctx)
	if err != nil || len(pending) > 0 {
		return err == nil, err
	}
	restored, err := e.store.RestoredSeq(ctx)
	return restored > 0, err
}

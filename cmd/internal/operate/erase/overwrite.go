package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/rewrite"
)

// replaced are the streams in which a newer message replaces an older one. The server does not overwrite the older one: its bytes stay in
// the file, and cannot be deleted any more. The Curator writes the view of the playbooks again; see eraseLogs.
var replaced = []string{
	"KV_" + events.BucketOpen,
	"KV_" + events.BucketWindow,
	"KV_" + events.BucketState,
	"KV_" + events.BucketContexts,
	"KV_" + events.BucketCaptures,
	events.StreamDead,
}

// cleared are streams that are emptied as a whole: no search can match their values, and they are made again when they are needed.
var cleared = []string{"KV_" + events.BucketVectors}

// overwrite makes the bytes of replaced messages vanish. It returns the number of dead letters that it has stored again.
func (e *Eraser) overwrite(ctx context.Context) (letters int, err error) {
	js := e.conn.JetStream()
	for _, name := range replaced {
		e.progress("write " + name + " again")
		n, err := rewrite.Stream(ctx, js, name)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return letters, err
		}
		if name == events.StreamDead {
			letters = n
		}
	}
	for _, name := range cleared {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err == nil {
			err = s.Purge(ctx)
		}
		if err != nil {
			return letters, fmt.Errorf("clear %s: %w", name, err)
		}
	}
	return letters, nil
}

package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
)

// replaced are the streams in which a newer message replaces an older one. The server does not overwrite the bytes of the older one, and it
// cannot be deleted any more. The bucket of the playbooks is not in the list: the Curator writes it again, see eraseLogs.
var replaced = []string{
	"KV_" + events.BucketOpen,
	"KV_" + events.BucketWindow,
	"KV_" + events.BucketState,
	"KV_" + events.BucketContexts,
	"KV_" + events.BucketCaptures,
	events.StreamDead,
}

// cleared are streams that are emptied as a whole. No search can match their values, and the values are computed again when needed.
var cleared = []string{"KV_" + events.BucketVectors}

// overwrite removes the bytes of replaced messages from the files. It returns the number of dead letters that it has stored again.
func (e *Eraser) overwrite(ctx context.Context) (letters int, err error) {
	js := e.conn.JetStream()
	for _, name := range replaced {
		e.progress("write " + name + " again")
		n, err := direct.Rewrite(ctx, js, name)
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

package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/streams"
)

// ErrRestoring is returned by CheckRestored for a server on which the restore of a backup was interrupted, or still runs.
var ErrRestoring = errors.New("the restore of a backup is incomplete, so streams are missing: repeat 'debrief backup restore DIR --replace'")

// CheckRestored returns ErrRestoring if a server has a part of the streams of a backup; see streams.MetadataRestoring.
func CheckRestored(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, streams.Attempts)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read stream %s: %w", streams.Attempts, err)
	case s.CachedInfo().Config.Metadata[streams.MetadataRestoring] != "":
		return ErrRestoring
	}
	return nil
}

package rewrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Overwrite deletes a message, and the server overwrites its bytes, unless it encrypts its store. It returns false for a message that
// does not exist: it has expired, or another process has removed it.
func Overwrite(ctx context.Context, stream jetstream.Stream, seq uint64) (removed bool, err error) {
	err = stream.SecureDeleteMsg(ctx, seq)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // the client hides why
		if _, missing := stream.GetMsg(ctx, seq); errors.Is(missing, jetstream.ErrMsgNotFound) {
			return false, nil
		}
	}
	return false, fmt.Errorf("overwrite message %d of stream %s: %w", seq, stream.CachedInfo().Config.Name, err)
}

// Package natserr classifies the errors of the NATS client that several packages handle alike. It does not decide what
// happens to a message: see events/bus/policy.go.
//
// A server reports a denied publish or subscription on the connection, by subject, and never answers the call that caused it. Without
// a Watch such a call looks like a call to a server that is down. A Watch of a connection ends the call with a DeniedError.
package natserr

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoStreams reports that the server has no streams of Debrief.
var ErrNoStreams = errors.New("the server has no streams of Debrief")

// IsConflict reports a failed compare-and-swap: the stream or the subject has a newer message than expected. A cluster
// returns the second code if another write to the same subject is in flight.
func IsConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// IsStreamMissing reports whether err, the error of a direct read, means that the stream does not exist. A stream without a leader gives the
// same error to readers but may hold messages, so IsStreamMissing asks the server.
func IsStreamMissing(ctx context.Context, js jetstream.JetStream, stream string, err error) bool {
	if !errors.Is(err, nats.ErrNoResponders) {
		return false
	}
	_, err = js.Stream(ctx, stream)
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

// AsTimeout returns nats.ErrTimeout instead of err if the client's own timeout ended the call. In that case the server
// did not answer. If ctx, the context of the caller, has ended, AsTimeout returns err unchanged.
func AsTimeout(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w (%v)", nats.ErrTimeout, err) //nolint:errorlint // not the end of the caller's context
	}
	return err
}

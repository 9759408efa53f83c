package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/direct"
	"debrief/events/natserr"
)

// storedMsg returns the message at a sequence of a stream. It returns nil if the message does not exist.
func (l *link) storedMsg(ctx context.Context, stream string, seq uint64) (*direct.Message, error) {
	m, err := l.direct.Get(ctx, stream, seq)
	if err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", stream, seq, err)
	}
	return m, nil
}

// nextMsg returns the first message of a subject from a sequence on. It returns nil if there is none.
func (l *link) nextMsg(ctx context.Context, stream, subject string, from uint64) (*direct.Message, error) {
	m, err := l.direct.Next(ctx, stream, subject, from)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s from %d: %w", subject, stream, from, err)
	}
	return m, nil
}

// streamInfo returns the state of a stream.
func (l *link) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	s, err := l.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", name, natserr.AsTimeout(ctx, err))
	}
	return s.CachedInfo(), nil
}

// getBlob returns a blob. The error of an expired or damaged blob is marked by Discard.
func (l *link) getBlob(ctx context.Context, name string) ([]byte, error) {
	data, err := l.blobs.Get(ctx, name)
	if blob.IsGone(err) {
		err = Discard(err)
	}
	return data, err
}

// decode returns the event of a stored message. It fetches the payload if that is a blob. If no later call can decode the
// message, the error is marked by Discard.
func (l *link) decode(ctx context.Context, subject string, header nats.Header, data []byte) (events.Event, error) {
	if name := header.Get(events.HeaderBlob); name != "" {
		if err := events.CheckSchema(header); err != nil {
			return nil, classifyDecode(err)
		}
		var err error
		if data, err = l.getBlob(ctx, name); err != nil {
			return nil, err
		}
	}
	e, err := events.Decode(subject, header, data)
	if err != nil {
		return nil, classifyDecode(err)
	}
	return e, nil
}

// classifyDecode marks a decoding error by Discard, except for a newer schema: a newer version can decode the event.
func classifyDecode(err error) error {
	if errors.Is(err, events.ErrNewerSchema) {
		return err
	}
	return Discard(err)
}

// lastPerSubject calls fn for the last message on each subject. Subjects may have wildcards.
func (l *link) lastPerSubject(ctx context.Context, stream string, subjects []string, fn func(direct.Message)) error {
	return l.direct.Read(ctx, stream, direct.Query{Last: subjects}, func(m direct.Message) error { fn(m); return nil })
}

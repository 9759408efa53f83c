package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// originalMsg returns the stored message of a duplicate event. It returns nil if the message no longer exists.
func (l *link) originalMsg(ctx context.Context, k events.Kind, seq uint64) (*nats.Msg, error) {
	m, err := l.storedMsg(ctx, streams.OfKind(k), seq)
	if m == nil || err != nil {
		return nil, err
	}
	header := nats.Header{}
	maps.Copy(header, m.Header)
	return &nats.Msg{Subject: m.Subject, Header: header, Data: m.Data}, nil
}

// storedMsg returns the message at a sequence of a stream. It returns nil if the message does not exist.
func (l *link) storedMsg(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error) {
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", stream, natserr.AsTimeout(ctx, err))
	}
	m, err := l.getMsg(ctx, s, stream, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", stream, seq, natserr.AsTimeout(ctx, err))
	}
	return m, nil
}

// getMsg returns a message of an open stream.
func (l *link) getMsg(ctx context.Context, s jetstream.Stream, stream string, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return natserr.Call(ctx, l.watch, stream, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.GetMsg(ctx, seq, opts...)
	})
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
	return l.readDirect(ctx, stream, direct.Query{Last: subjects}, fn)
}

// readDirect calls fn for every message that matches a query.
func (l *link) readDirect(ctx context.Context, stream string, q direct.Query, fn func(direct.Message)) error {
	err := natserr.Do(ctx, l.watch, stream, func(ctx context.Context) error {
		return direct.Read(ctx, l.nc, stream, q, func(m direct.Message) error {
			fn(m)
			return nil
		})
	})
	return natserr.AsTimeout(ctx, err)
}

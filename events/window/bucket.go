package window

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/redact"
)

// This file encodes, reads and writes the values of the buckets. The other files define the values.

// bucket is a key-value bucket by name.
type bucket string

func (b bucket) stream() string { return "KV_" + string(b) }

func (b bucket) subject(key string) string { return "$KV." + string(b) + "." + key }

// maxValue is the maximum size of a stored value, in bytes. The default limit of a server is 1 MiB with headers.
const maxValue = 900 << 10

// ErrTooLarge is returned for a value that is larger than a bucket may store. Nothing was stored.
var ErrTooLarge = errors.New("value too large")

// encode returns the message that stores value, which is a pointer. It also redacts the secrets in value.
func encode(b bucket, key string, value any) (*nats.Msg, error) {
	redact.Fields(value)
	data, err := events.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(data) > maxValue {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(data), maxValue)
	}
	return &nats.Msg{Subject: b.subject(key), Header: events.SchemaHeader(), Data: data}, nil
}

// decode returns the value in a stored message.
func decode[T any](m direct.Message) (*T, error) {
	if err := events.CheckSchema(m.Header); err != nil {
		return nil, err
	}
	v := new(T)
	if err := events.Unmarshal(m.Data, v); err != nil {
		return nil, err
	}
	return v, nil
}

// writeTimeout limits a write if the caller's context has no deadline. After it the error is nats.ErrTimeout.
const writeTimeout = 5 * time.Second

func withWriteTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, writeTimeout, nats.ErrTimeout)
}

// cause returns err, or nats.ErrTimeout if writeTimeout has expired and not the caller's deadline.
func cause(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), nats.ErrTimeout) {
		return nats.ErrTimeout
	}
	return err
}

func (s *Store) put(ctx context.Context, b bucket, key string, value any, opts ...jetstream.PublishOpt) error {
	m, err := encode(b, key, value)
	if err != nil {
		return err
	}
	return s.publish(ctx, m, opts...)
}

func (s *Store) publish(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) error {
	ctx, cancel := withWriteTimeout(ctx)
	defer cancel()
	_, err := s.js.PublishMsg(ctx, m, opts...)
	return cause(ctx, err)
}

// last returns the last message of a key, or nil if the key does not exist. The message may be a delete marker.
func (s *Store) last(ctx context.Context, b bucket, key string) (*direct.Message, error) {
	return s.direct.Last(ctx, b.stream(), b.subject(key))
}

// load returns the value of a key and the sequence of its last message. The value is nil if the key does not exist or was deleted.
func load[T any](ctx context.Context, s *Store, b bucket, key string) (v *T, seq uint64, err error) {
	m, err := s.last(ctx, b, key)
	if m == nil || err != nil {
		return nil, 0, err
	}
	if m.Deleted() {
		return nil, m.Seq, nil
	}
	v, err = decode[T](*m)
	return v, m.Seq, err
}

// history returns the stored values of a key, oldest first. Of several values with the same id it returns the
// first. damaged counts the values that are unreadable or have no id. A delete marker removes everything before it.
func history[T any](ctx context.Context, s *Store, key string, id func(*T) events.ID) (list []*T, damaged int, err error) {
	seen := map[events.ID]bool{}
	q := direct.Query{Subject: windows.subject(key)}
	err = s.direct.Read(ctx, windows.stream(), q, func(m direct.Message) error {
		if m.Deleted() {
			list, damaged = nil, 0
			clear(seen)
			return nil
		}
		v, err := decode[T](m)
		switch {
		case err != nil || id(v) == "":
			damaged++
		case !seen[id(v)]:
			seen[id(v)] = true
			list = append(list, v)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return list, damaged, nil
}

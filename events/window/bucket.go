package window

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/events/redact"
)

// This file is how values get into the buckets and out of them; the others say what they mean.

// bucket is a key-value bucket by name.
type bucket string

func (b bucket) stream() string { return "KV_" + string(b) }

func (b bucket) subject(key string) string { return "$KV." + string(b) + "." + key }

// maxValue is the largest value that is stored, in bytes: what a server takes by default, 1 MiB with the headers, less
// some room.
const maxValue = 900 << 10

var errTooLarge = errors.New("too large to be stored")

// encode is a value, a pointer, as the message that puts it. Its texts have no secrets after that.
func encode(b bucket, key string, value any) (*nats.Msg, error) {
	redact.Fields(value)
	data, err := events.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(data) > maxValue {
		return nil, fmt.Errorf("has %d bytes, more than %d: %w", len(data), maxValue, errTooLarge)
	}
	return &nats.Msg{Subject: b.subject(key), Header: events.SchemaHeader(), Data: data}, nil
}

// decode is the value of a stored message.
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

// answerTimeout bounds a write's wait for the server where the caller set no deadline. Past it the error is nats.ErrTimeout.
const answerTimeout = 5 * time.Second

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, answerTimeout, nats.ErrTimeout)
}

// cause is the error, or nats.ErrTimeout where the deadline that has passed is ours and not the caller's.
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
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := s.js.PublishMsg(ctx, m, opts...)
	return cause(ctx, err)
}

// last is the last message of a key, nil if it has none. A marker that the key is gone is one.
func (s *Store) last(ctx context.Context, b bucket, key string) (*direct.Message, error) {
	return denied.Call(ctx, s.watch, b.stream(), func(ctx context.Context) (*direct.Message, error) {
		return direct.Last(ctx, s.nc, b.stream(), b.subject(key))
	})
}

// history is what the server keeps of a key, oldest first, each id once: of several with one id the first. Damaged
// counts the entries that cannot be read or have no id. What stood before the key was deleted is gone.
func history[T any](ctx context.Context, s *Store, key string, id func(*T) events.ID) (list []*T, damaged int, err error) {
	seen := map[events.ID]bool{}
	q := direct.Query{Subject: windows.subject(key)}
	err = s.read(ctx, windows, q, func(m direct.Message) error {
		if m.Removed() {
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

func (s *Store) read(ctx context.Context, b bucket, q direct.Query, fn func(direct.Message) error) error {
	return denied.Do(ctx, s.watch, b.stream(), func(ctx context.Context) error {
		return direct.Read(ctx, s.nc, b.stream(), q, fn)
	})
}

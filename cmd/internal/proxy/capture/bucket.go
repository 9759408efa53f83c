package capture

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/events/redact"
)

// Lifetimes of values that are shorter than the age of their bucket.
const (
	referenceTTL = 48 * time.Hour // of a reference that continues a conversation; no prompt cache lives longer
	deletedTTL   = time.Minute    // of a delete marker
)

// errDisconnected is returned at once if there is no connection, so that a call of a model does not wait for a connection.
var errDisconnected = fmt.Errorf("no connection to NATS: %w", nats.ErrConnectionReconnecting)

// bucket reads and writes values of one bucket. Each key has one value.
type bucket struct {
	*server
	name string
}

func (b *bucket) stream() string { return "KV_" + b.name }
func (b *bucket) prefix() string { return "$KV." + b.name + "." }

// server is the NATS server with the buckets.
type server struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	watch *natserr.Watch // ends a request that lacks a permission
	acked atomic.Int64   // Unix time of the last acknowledgement, in nanoseconds
}

const busyTime = time.Second // longest time between two acknowledgements of a server that is busy, but works

// working reports whether the server has stored a value just now.
func (s *server) working() bool {
	return s.nc.IsConnected() && time.Since(time.Unix(0, s.acked.Load())) < busyTime
}

// decode returns the value of a message, or nil for a delete marker.
func decode[T any](m *direct.Message) (*T, error) {
	if m == nil || m.Deleted() {
		return nil, nil
	}
	if err := events.CheckSchema(m.Header); err != nil {
		return nil, err
	}
	v := new(T)
	if err := events.Unmarshal(m.Data, v); err != nil {
		return nil, err
	}
	return v, nil
}

// put redacts the value, which is a pointer, and stores it in place of the old value of the key. A lifetime of 0 is the age of the bucket.
// It returns the new revision.
func (b *bucket) put(ctx context.Context, key string, value any, ttl time.Duration, opts ...jetstream.PublishOpt) (uint64, error) {
	redact.Fields(value)
	data, err := events.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w", key, err)
	}
	return b.publish(ctx, &nats.Msg{Subject: b.prefix() + key, Header: events.SchemaHeader(), Data: data}, ttl, opts...)
}

func (b *bucket) publish(ctx context.Context, m *nats.Msg, ttl time.Duration, opts ...jetstream.PublishOpt) (uint64, error) {
	if !b.nc.IsConnected() {
		return 0, errDisconnected
	}
	if ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(ttl))
	}
	ack, err := b.js.PublishMsg(ctx, m, opts...)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", m.Subject, err)
	}
	b.acked.Store(time.Now().UnixNano())
	return ack.Sequence, nil
}

// remove deletes keys. It waits for the acknowledgement of the last key only: a lost deletion wastes space until the value expires.
func (b *bucket) remove(ctx context.Context, keys ...string) error {
	for i, key := range keys {
		m := &nats.Msg{Subject: b.prefix() + key, Header: nats.Header{}}
		m.Header.Set("KV-Operation", "DEL")
		isLast := i == len(keys)-1
		if isLast {
			_, err := b.publish(ctx, m, deletedTTL)
			return err
		}
		m.Header.Set(jetstream.MsgTTLHeader, deletedTTL.String())
		if err := b.nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// read calls fn for the messages of a key, which may have wildcards.
func (b *bucket) read(ctx context.Context, key string, fn func(*direct.Message) error) error {
	return b.query(ctx, direct.Query{Subject: b.prefix() + key}, fn)
}

// last calls fn for the last message of each key. Missing keys are left out.
func (b *bucket) last(ctx context.Context, keys []string, fn func(*direct.Message) error) error {
	for len(keys) > 0 {
		n := min(len(keys), direct.MaxLast)
		subjects := make([]string, n)
		for i, key := range keys[:n] {
			subjects[i] = b.prefix() + key
		}
		if err := b.query(ctx, direct.Query{Last: subjects}, fn); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func (b *bucket) query(ctx context.Context, q direct.Query, fn func(*direct.Message) error) error {
	if !b.nc.IsConnected() {
		return errDisconnected
	}
	err := natserr.Do(ctx, b.watch, b.stream(), func(ctx context.Context) error {
		return direct.Read(ctx, b.nc, b.stream(), q, func(m direct.Message) error { return fn(&m) })
	})
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("bucket %s does not exist, or no server stores it: %w", b.name, err)
	}
	return err
}

// isTemporary reports whether an error is temporary: the connection is interrupted, or was interrupted during the request.
// reconnects is the count before the request. The timeout of a slow server is not temporary: repeated requests would slow it down.
func (s *server) isTemporary(err error, reconnects uint64) bool {
	if err == nil || s.nc.IsClosed() {
		return false
	}
	return s.nc.IsReconnecting() || errors.Is(err, errDisconnected) || s.nc.Stats().Reconnects != reconnects
}

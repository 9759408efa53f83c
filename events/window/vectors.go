package window

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
)

const vectors bucket = events.BucketVectors

// vector is the value of a stored embedding.
type vector struct {
	Model     string `msgpack:"m"`
	Dimension int    `msgpack:"d"`
	Data      []byte `msgpack:"v"` // float32, little-endian
}

// vectorKey returns the key for a model's embedding of a text. Different models have different keys.
func vectorKey(model, key string) string { return string(events.Hash("vector", model, key)) }

// Vectors returns the embeddings of texts by a model, in the order of the keys. A key represents a text, such as
// its hash. The entry for a missing or unreadable embedding is nil. A model may change its dimension under the same
// name, so callers must compare the lengths before they compare vectors.
func (s *Store) Vectors(ctx context.Context, model string, keys []string) ([][]float32, error) {
	subjects := make([]string, len(keys))
	for i, key := range keys {
		subjects[i] = vectors.subject(vectorKey(model, key))
	}
	found := make(map[string][]float32, len(keys))
	for chunk := range slices.Chunk(subjects, direct.MaxLast) {
		err := s.direct.Read(ctx, vectors.stream(), direct.Query{Last: chunk}, func(m direct.Message) error {
			if v, err := decodeVector(m, model); err == nil {
				found[m.Subject] = v
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %d vectors of model %.80q: %w", len(keys), model, err)
		}
	}
	list := make([][]float32, len(keys))
	for i, subject := range subjects {
		list[i] = found[subject]
	}
	return list, nil
}

// maxPendingPuts is the maximum number of unacknowledged puts. It is large enough to hide the latency, and far
// below the limit of the client library.
const maxPendingPuts = 256

// PutVectors stores the embeddings of texts by a model, one for each key. All must have the same dimension. After
// an error some of them may be stored.
func (s *Store) PutVectors(ctx context.Context, model string, keys []string, list [][]float32) error {
	if err := s.putVectors(ctx, model, keys, list); err != nil {
		return fmt.Errorf("store %d vectors of model %.80q: %w", len(list), model, err)
	}
	return nil
}

func (s *Store) putVectors(ctx context.Context, model string, keys []string, list [][]float32) error {
	if len(keys) != len(list) {
		return fmt.Errorf("%d keys for %d vectors", len(keys), len(list))
	}
	all := make([]*nats.Msg, len(keys))
	for i, v := range list {
		if len(v) != len(list[0]) {
			return fmt.Errorf("vector %d has dimension %d, the first has %d", i, len(v), len(list[0]))
		}
		data, err := encodeVector(v)
		if err == nil {
			all[i], err = encode(vectors, vectorKey(model, keys[i]), &vector{model, len(v), data})
		}
		if err != nil {
			return fmt.Errorf("vector %d: %w", i, err)
		}
	}
	acks := make([]jetstream.PubAckFuture, 0, len(all))
	for i, m := range all {
		if i >= maxPendingPuts {
			if err := waitAck(ctx, acks[i-maxPendingPuts]); err != nil {
				return err
			}
		}
		ack, err := s.js.PublishMsgAsync(m)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks[max(0, len(acks)-maxPendingPuts):] {
		if err := waitAck(ctx, ack); err != nil {
			return err
		}
	}
	return nil
}

func waitAck(ctx context.Context, ack jetstream.PubAckFuture) error {
	ctx, cancel := withWriteTimeout(ctx)
	defer cancel()
	select {
	case <-ack.Ok():
		return nil
	case err := <-ack.Err():
		return err
	case <-ctx.Done():
		return cause(ctx, ctx.Err())
	}
}

func encodeVector(v []float32) ([]byte, error) {
	if len(v) == 0 {
		return nil, errors.New("is empty")
	}
	data := make([]byte, 0, 4*len(v))
	for i, x := range v {
		if !finite(x) {
			return nil, fmt.Errorf("component %d is %v", i, x)
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return data, nil
}

// decodeVector returns the embedding in a message. It returns an error if the embedding is from another model.
func decodeVector(m direct.Message, model string) ([]float32, error) {
	if m.Deleted() {
		return nil, errors.New("deleted")
	}
	stored, err := decode[vector](m)
	if err != nil {
		return nil, err
	}
	switch {
	case stored.Model != model:
		return nil, fmt.Errorf("vector of another model %.80q", stored.Model)
	case len(stored.Data) == 0 || len(stored.Data)%4 != 0 || len(stored.Data)/4 != stored.Dimension:
		return nil, fmt.Errorf("%d bytes for dimension %d", len(stored.Data), stored.Dimension)
	}
	v := make([]float32, stored.Dimension)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(stored.Data[4*i:]))
		if !finite(v[i]) { // every similarity with it would be NaN or infinite
			return nil, fmt.Errorf("component %d is %v", i, v[i])
		}
	}
	return v, nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

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

// vectorKey names a model's embedding of a text, so that those of two models never mix.
func vectorKey(model, key string) string { return string(events.Hash("vector", model, key)) }

// Vectors are the embeddings that a model made of texts, in the order of the keys, nil where there is none. A key is
// whatever stands for a text, such as its hash. One that cannot be read is not there, to be made and put again. A model
// may have changed its dimension under one name: who compares vectors compares their lengths first.
func (s *Store) Vectors(ctx context.Context, model string, keys []string) ([][]float32, error) {
	subjects := make([]string, len(keys))
	for i, key := range keys {
		subjects[i] = vectors.subject(vectorKey(model, key))
	}
	found := make(map[string][]float32, len(keys))
	for some := range slices.Chunk(subjects, direct.MaxLast) {
		err := s.read(ctx, vectors, direct.Query{Last: some}, func(m direct.Message) error {
			if v, err := decodeVector(m, model); err == nil {
				found[m.Subject] = v
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %d vectors of %.80q: %w", len(keys), model, err)
		}
	}
	list := make([][]float32, len(keys))
	for i, subject := range subjects {
		list[i] = found[subject]
	}
	return list, nil
}

// puttingVectors is how many puts are under way at a time: enough that nobody waits for the wire, and far from where
// the client would refuse more.
const puttingVectors = 256

// PutVectors keeps the embeddings that a model made of texts, one for each key, all of one dimension. After an error
// some may be there.
func (s *Store) PutVectors(ctx context.Context, model string, keys []string, list [][]float32) error {
	if err := s.putVectors(ctx, model, keys, list); err != nil {
		return fmt.Errorf("put %d vectors of %.80q: %w", len(list), model, err)
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
		if i >= puttingVectors {
			if err := wait(ctx, acks[i-puttingVectors]); err != nil {
				return err
			}
		}
		ack, err := s.js.PublishMsgAsync(m)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks[max(0, len(acks)-puttingVectors):] {
		if err := wait(ctx, ack); err != nil {
			return err
		}
	}
	return nil
}

func wait(ctx context.Context, ack jetstream.PubAckFuture) error {
	ctx, cancel := bounded(ctx)
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

// decodeVector is the embedding that a message holds, if it is one of this model.
func decodeVector(m direct.Message, model string) ([]float32, error) {
	if m.Removed() {
		return nil, errors.New("is deleted")
	}
	stored, err := decode[vector](m)
	if err != nil {
		return nil, err
	}
	switch {
	case stored.Model != model:
		return nil, fmt.Errorf("is of model %.80q", stored.Model)
	case len(stored.Data) == 0 || len(stored.Data)%4 != 0 || len(stored.Data)/4 != stored.Dimension:
		return nil, fmt.Errorf("has %d bytes for dimension %d", len(stored.Data), stored.Dimension)
	}
	v := make([]float32, stored.Dimension)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(stored.Data[4*i:]))
		if !finite(v[i]) { // one such would make nonsense of every comparison
			return nil, fmt.Errorf("component %d is %v", i, v[i])
		}
	}
	return v, nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

package generator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"debrief/events/window"
	"debrief/playbook/recall"
	"debrief/playbook/text"
)

// embeddingCache embeds texts and caches the vectors in a bucket. Without an embedder it uses hashed n-grams.
type embeddingCache struct {
	windows   *window.Store
	embedder  Embedder // nil selects hashed n-grams
	log       *zerolog.Logger
	dimension atomic.Int64 // of the embedder's vectors, 0 until the first result
}

func newEmbeddingCache(windows *window.Store, embedder Embedder, log *zerolog.Logger) *embeddingCache {
	return &embeddingCache{windows: windows, embedder: embedder, log: log}
}

const (
	maxEmbeddedBytes = 8000 // maximum input of the embedder
	embedBatch       = 64   // texts in one call
)

// modelName names the model of a vector. Indexes compare only vectors of one model. The name contains the dimension,
// because a model can change it under the same name.
func (c *embeddingCache) modelName(vector []float32) string {
	if c.embedder == nil {
		return recall.HashedModel
	}
	return fmt.Sprintf("%s with %d dimensions", c.embedder.Model(), len(vector))
}

// cached returns vectors without a call of the embedder. A vector is nil if it is not cached.
func (c *embeddingCache) cached(ctx context.Context, texts []string) [][]float32 {
	if c.embedder == nil {
		out := make([][]float32, len(texts))
		for i, text := range texts {
			out[i] = recall.HashedVector(embeddingInput(text), nil)
		}
		return out
	}
	out, err := c.windows.Vectors(ctx, c.embedder.Model(), cacheKeys(texts))
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn().Err(err).Msg("read cached embeddings")
		}
		return make([][]float32, len(texts))
	}
	if n := int(c.dimension.Load()); n > 0 {
		for i := range out {
			if len(out[i]) != n {
				out[i] = nil // from another model with the same name
			}
		}
	}
	return out
}

// get returns the vectors of texts. It computes and caches the missing ones. The first call embeds an additional word to learn the dimension of the
// model, because the cache may have vectors of another model with the same name. Without an embedder no vector is missing.
func (c *embeddingCache) get(ctx context.Context, texts []string) ([][]float32, error) {
	if c.embedder != nil && c.dimension.Load() == 0 {
		if _, err := c.embed(ctx, []string{"dimension"}); err != nil {
			return nil, err
		}
	}
	out := c.cached(ctx, texts)
	var indices []int // of the missing texts
	var missing []string
	for i := range out {
		if out[i] == nil {
			indices, missing = append(indices, i), append(missing, texts[i])
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	computed, err := c.embed(ctx, missing)
	if err != nil {
		return nil, err
	}
	for k, i := range indices {
		out[i] = computed[k]
	}
	// If the cache cannot be written, the vectors are computed again after a restart.
	if err := c.windows.PutVectors(ctx, c.embedder.Model(), cacheKeys(missing), computed); err != nil {
		c.log.Warn().Err(err).Msg("write cached embeddings")
	}
	return out, nil
}

// embed calls the embedder and validates its vectors.
func (c *embeddingCache) embed(ctx context.Context, texts []string) ([][]float32, error) {
	inputs := make([]string, len(texts))
	for i, text := range texts {
		inputs[i] = embeddingInput(text)
	}
	computed, err := c.embedder.Embed(ctx, inputs)
	if err != nil {
		return nil, err
	}
	if len(computed) != len(texts) {
		return nil, fmt.Errorf("embedder: want %d vectors, got %d", len(texts), len(computed))
	}
	for _, vector := range computed {
		if len(vector) != len(computed[0]) {
			return nil, fmt.Errorf("embedder: vectors of different dimensions: %d and %d", len(computed[0]), len(vector))
		}
		if !isUsable(vector) {
			return nil, errors.New("embedder: invalid vector: zero, infinite or not a number")
		}
	}
	c.dimension.Store(int64(len(computed[0])))
	return computed, nil
}

// isUsable reports whether a vector is finite and not zero, so that it has a cosine.
func isUsable(vector []float32) bool {
	square := 0.0
	for _, x := range vector {
		square += float64(x) * float64(x)
	}
	return square > 0 && !math.IsInf(square, 0) // false for NaN
}

// embeddingInput returns the part of a text that is embedded, as valid UTF-8.
func embeddingInput(s string) string { return text.Clip(s, maxEmbeddedBytes) }

// cacheKeys returns the keys of texts in the bucket of vectors.
func cacheKeys(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		sum := sha256.Sum256([]byte(embeddingInput(text)))
		all[i] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return all
}

// queryEmbedding is a query for bullets, history and conversation items.
type queryEmbedding struct {
	text      string
	vector    []float32 // nil if the embedder was unavailable
	modelName string    // of the vector

	hashed func() []float32 // vector of hashed n-grams, computed at the first call

	// Results of searches for bullets by words and by past tasks, nil before the first search. Experiments and rankings use both.
	byWords []recall.Match
	byTasks []evidenceHit
}

// embedQuery computes the vector of a query without its long lists. If the embedder is unavailable, the vector is nil, and embedQuery adds a warning.
func (c *embeddingCache) embedQuery(ctx context.Context, query string, warns *warnings) *queryEmbedding {
	q := &queryEmbedding{text: embeddingInput(text.WithoutLists(query))}
	q.hashed = sync.OnceValue(func() []float32 { return recall.HashedVector(q.text, nil) })
	if c.embedder == nil {
		q.vector = q.hashed()
	} else if computed, err := c.embed(ctx, []string{q.text}); err != nil {
		warns.add("embeddings: %s; bullets and history are found by words only", shortError(ctx, err))
	} else {
		q.vector = computed[0]
	}
	q.modelName = c.modelName(q.vector)
	return q
}

// similarity returns the similarity of a text of the conversation to the query, from 0 to 1, by hashed n-grams. Such texts are new in every turn, so
// a call of the embedder for each would cost too much.
func (q *queryEmbedding) similarity(text string) float64 {
	var buf [recall.HashedDimension]float32
	return q.similarityTo(recall.HashedVector(text, buf[:0]))
}

// similarityTo is similarity for the vector of a text.
func (q *queryEmbedding) similarityTo(vector []float32) float64 {
	sum, query := 0.0, q.hashed()
	for i, x := range vector {
		sum += float64(x) * float64(query[i])
	}
	return max(sum, 0)
}

package generator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/window"
	"debrief/playbook/recall"
)

// vectors turns texts into vectors: those of the embedder, each paid for once and kept, or hashed n-grams without one.
type vectors struct {
	windows   *window.Store
	embedder  Embedder // nil for hashed n-grams
	log       *zerolog.Logger
	dimension atomic.Int64 // of what the embedder makes, 0 until it has made something
}

func newVectors(windows *window.Store, embedder Embedder, log *zerolog.Logger) *vectors {
	return &vectors{windows: windows, embedder: embedder, log: log}
}

const (
	maxEmbedded = 8000 // bytes of a text that count
	embedBatch  = 64   // texts that are embedded at a time
)

// model names what made a vector, for an index in which those of two models never meet. One that has changed its
// dimension is another one, whatever it calls itself.
func (v *vectors) model(vector []float32) string {
	if v.embedder == nil {
		return recall.HashedModel
	}
	return fmt.Sprintf("%s with %d dimensions", v.embedder.Model(), len(vector))
}

// kept are the vectors of texts that cost nothing, nil where there is none.
func (v *vectors) kept(ctx context.Context, texts []string) [][]float32 {
	if v.embedder == nil {
		out := make([][]float32, len(texts))
		for i, text := range texts {
			out[i] = recall.Hashed(embedded(text), nil)
		}
		return out
	}
	out, err := v.windows.Vectors(ctx, v.embedder.Model(), keys(texts))
	if err != nil {
		if ctx.Err() == nil {
			v.log.Warn().Err(err).Msg("read kept embeddings")
		}
		return make([][]float32, len(texts))
	}
	if n := int(v.dimension.Load()); n > 0 {
		for i := range out {
			if len(out[i]) != n {
				out[i] = nil // of another model by the same name
			}
		}
	}
	return out
}

// of are the vectors of texts. Those that are not kept the embedder makes, and they are kept.
func (v *vectors) of(ctx context.Context, texts []string) ([][]float32, error) {
	out := v.kept(ctx, texts)
	var at []int
	var missing []string
	for i := range out {
		if out[i] == nil {
			at, missing = append(at, i), append(missing, texts[i])
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	made, err := v.embed(ctx, missing)
	if err != nil {
		return nil, err
	}
	for k, i := range at {
		out[i] = made[k]
	}
	if err := v.windows.PutVectors(ctx, v.embedder.Model(), keys(missing), made); err != nil { // they are paid for again after a restart
		v.log.Warn().Err(err).Msg("keep embeddings")
	}
	return out, nil
}

// embed has the embedder make vectors, and sees to it that they are some.
func (v *vectors) embed(ctx context.Context, texts []string) ([][]float32, error) {
	asked := make([]string, len(texts))
	for i, text := range texts {
		asked[i] = embedded(text)
	}
	made, err := v.embedder.Embed(ctx, asked)
	if err != nil {
		return nil, err
	}
	if len(made) != len(texts) {
		return nil, fmt.Errorf("the embedder made %d vectors for %d texts", len(made), len(texts))
	}
	for _, vector := range made {
		if len(vector) != len(made[0]) {
			return nil, fmt.Errorf("the embedder made vectors of %d and of %d dimensions", len(made[0]), len(vector))
		}
		if !directed(vector) {
			return nil, errors.New("the embedder made a vector that has no direction")
		}
	}
	v.dimension.Store(int64(len(made[0])))
	return made, nil
}

// directed reports whether a vector can be compared with others.
func directed(vector []float32) bool {
	square := 0.0
	for _, x := range vector {
		square += float64(x) * float64(x)
	}
	return square > 0 && !math.IsInf(square, 0) // NaN is not above 0
}

// embedded is what counts of a text.
func embedded(text string) string {
	return strings.ToValidUTF8(events.Beginning(text, maxEmbedded), "\uFFFD")
}

// keys name texts in the bucket of vectors.
func keys(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		sum := sha256.Sum256([]byte(embedded(text)))
		all[i] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return all
}

// question is a query as bullets, items of a conversation and history are held against it.
type question struct {
	text   string
	vector []float32 // nil where the embedder could not be had
	model  string    // of the vector

	lexical func() []float32
}

// query makes the vector of a query.
func (v *vectors) query(ctx context.Context, text string, missed *remarks) *question {
	q := &question{text: embedded(text)}
	q.lexical = sync.OnceValue(func() []float32 { return recall.Hashed(q.text, nil) })
	if v.embedder == nil {
		q.vector = q.lexical()
	} else if made, err := v.embed(ctx, []string{q.text}); err != nil {
		missed.add("embeddings: %s; bullets and history are found by words alone", brief(ctx, err))
	} else {
		q.vector = made[0]
	}
	q.model = v.model(q.vector)
	return q
}

// similar is how near a text of the conversation is to the query, by n-grams: such texts are new at every turn, and not
// worth a call of an embedder each.
func (q *question) similar(text string) float64 {
	var buf [recall.HashedDimension]float32
	sum, query := 0.0, q.lexical()
	for i, x := range recall.Hashed(text, buf[:0]) {
		sum += float64(x) * float64(query[i])
	}
	return max(sum, 0)
}

package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

const (
	// batchTexts in a request at most: OpenAI takes 2,048, others fewer, and more make no request cheaper.
	batchTexts = 256
	// batchBytes keep a request below OpenAI's 300,000 tokens even where every byte is one.
	batchBytes = 256 << 10
	// textBytes are about 8,000 tokens, below the 8,192 of OpenAI's models.
	textBytes = 27_200
	// leastBytes are below what any model takes: no shorter cut is tried.
	leastBytes = 256

	// frameBytes and vectorBytes bound the answer: 8,192 numbers of 32 bytes, indented as OpenAI's are, to the text.
	frameBytes  = 64 << 10
	vectorBytes = 256 << 10
)

// Embedder turns texts into vectors by POST /embeddings. It is safe for concurrent use.
type Embedder struct {
	*server
	// What the server has turned out to want, for the life of the Embedder.
	plain     atomic.Bool  // no encoding_format
	texts     atomic.Int64 // of a request at most
	longest   atomic.Int64 // bytes of a text
	dimension atomic.Int64 // of every vector, 0 before the first
}

// NewEmbedder fills in defaults, validates, and allocates. It does not speak to the server. The flags that its errors
// name begin with --embed-.
func NewEmbedder(cfg Config) (*Embedder, error) {
	return newEmbedder(cfg, newTransport(cfg.WithDefaults().MaxConcurrent))
}

func newEmbedder(cfg Config, base http.RoundTripper) (*Embedder, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	s, err := newServer(cfg, embedSettings, base)
	if err != nil {
		return nil, err
	}
	e := &Embedder{server: s}
	e.texts.Store(batchTexts)
	e.longest.Store(textBytes)
	return e, nil
}

// Model is the model that was asked for. Vectors of one model cannot be compared with those of another.
func (e *Embedder) Model() string { return e.cfg.Model }

// Stats counts one call for each batch of texts.
func (e *Embedder) Stats() Stats {
	var without []string
	if e.plain.Load() {
		without = append(without, "encoding_format")
	}
	if n := e.longest.Load(); n < textBytes {
		without = append(without, fmt.Sprintf("texts over %d bytes", n))
	}
	if n := e.texts.Load(); n < batchTexts {
		without = append(without, fmt.Sprintf("more than %d texts at once", n))
	}
	return e.stats(without)
}

// Embed makes one vector of each text, in the order of the texts, all of one length for the life of the Embedder. Every
// vector has a direction: its numbers are finite, and so is the sum of their squares, which is not 0. They are not
// brought to any length.
//
// A text is read without the blanks around it; one that is all blank counts as a single space, which servers accept
// where they refuse nothing. Of a text that is longer than about 8,000 tokens (27,200 bytes), or than the model has
// turned out to take, only the beginning counts.
//
// An error leaves no vectors. The package comment lists them; a *DimensionError means that the name stands for another
// model now.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, 0, len(texts))
	for len(vectors) < len(texts) {
		batch := e.batch(texts[len(vectors):])
		more, err := e.embed(ctx, batch)
		if err != nil {
			if e.fewer(err, len(batch)) {
				continue
			}
			return nil, err
		}
		vectors = append(vectors, more...)
	}
	return vectors, nil
}

// batch is as many of the texts as go into one request, at least one.
func (e *Embedder) batch(texts []string) []string {
	most, longest := int(e.texts.Load()), int(e.longest.Load())
	n, bytes := 0, 0
	for n < min(most, len(texts)) {
		bytes += min(len(texts[n]), longest)
		if n > 0 && bytes > batchBytes {
			break
		}
		n++
	}
	return texts[:n]
}

// embed sends one batch.
func (e *Embedder) embed(ctx context.Context, texts []string) ([][]float32, error) {
	input := presented(texts, e.longest.Load())
	estimate := 0
	for _, t := range input {
		estimate += chat.Tokens(t)
	}
	var req openai.EmbeddingRequest
	var vectors [][]float32
	err := e.do(ctx, call{
		operation: "embeddings",
		estimate:  estimate,
		most:      frameBytes + int64(len(texts))*vectorBytes,
		send: func(ctx context.Context, _ *exchange) (usage chat.Usage, err error) {
			input = presented(texts, e.longest.Load())
			req = e.request(input)
			vectors, usage, err = e.send(ctx, req, len(input))
			return usage, err
		},
		learn: func(err *Error, s said) bool {
			switch {
			case err.kind == refused && req.EncodingFormat != "" && s.about("encoding_format"):
				e.plain.Store(true)
				return true
			case aboutOneText(err, s):
				return e.shorten(input)
			}
			return false
		},
	})
	if err == nil {
		if err = e.sameDimension(len(vectors[0])); err != nil {
			e.counters.failures.Add(1)
		}
	}
	if err != nil {
		return nil, err
	}
	return vectors, nil
}

// presented are texts as they are sent: at most so many bytes each, no half characters, and none empty.
func presented(texts []string, longest int64) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		t = strings.TrimSpace(strings.ReplaceAll(t, "\x00", " ")) // NUL is the end to servers in C
		if n := int(longest); len(t) > n {
			for range utf8.UTFMax - 1 {
				if !utf8.RuneStart(t[n]) {
					n--
				}
			}
			t = t[:n]
		}
		out[i] = cmp.Or(t, " ")
	}
	return out
}

func (e *Embedder) request(input []string) openai.EmbeddingRequest {
	req := openai.EmbeddingRequest{Model: openai.EmbeddingModel(e.cfg.Model), Input: input}
	if !e.plain.Load() {
		req.EncodingFormat = openai.EmbeddingEncodingFormatFloat // some servers choose base64 by themselves
	}
	return req
}

var (
	tokenWords = regexp.MustCompile(`(?i)tokens|context|too large to process`)
	batchWords = regexp.MustCompile(`(?i)batch|per request|request size|too many inputs`)
)

// aboutOneText says whether a text is longer than the model reads. llama.cpp says so with a 500; a 429 is about the
// account's rate, and a 413 without a word of tokens is a proxy's about the whole request.
func aboutOneText(err *Error, s said) bool {
	switch {
	case err.Status == http.StatusTooManyRequests:
		return false
	case err.kind == tooLong:
		return tokenWords.MatchString(s.Code + " " + s.Text)
	}
	return s.about("too large to process")
}

// shorten sees to it that at most half of the longest of these texts is sent, and says whether that is worth a try.
func (e *Embedder) shorten(sent []string) bool {
	most := 0
	for _, t := range sent {
		most = max(most, len(t))
	}
	if most/2 < leastBytes {
		return false
	}
	lower(&e.longest, int64(most/2))
	return true
}

// lower takes a limit down, unless another call has taken it further.
func lower(limit *atomic.Int64, to int64) {
	for now := limit.Load(); now > to && !limit.CompareAndSwap(now, to); now = limit.Load() {
	}
}

// fewer says whether the same texts may do in smaller requests, and sees to it that the next are.
func (e *Embedder) fewer(err error, sent int) bool {
	if sent == 1 {
		return false
	}
	long, refusal := (*chat.TooLongError)(nil), (*Error)(nil)
	if !errors.As(err, &long) && !(errors.As(err, &refusal) && refusal.kind == refused && batchWords.MatchString(refusal.Text)) {
		return false
	}
	lower(&e.texts, int64(sent/2))
	return true
}

// errNoDirection is returned when a vector cannot be compared with others. That comes of its text (a model of 16 bits
// overflows, and llama.cpp writes null for what is no number), so it is no use to ask again.
var errNoDirection = errors.New("a vector is empty, all zeros or beyond float32")

// send sends one request for n vectors and puts them in the order of the texts, which servers need not keep.
func (e *Embedder) send(ctx context.Context, req openai.EmbeddingRequest, n int) ([][]float32, chat.Usage, error) {
	resp, err := e.openai.CreateEmbeddings(ctx, req)
	if err != nil {
		return nil, chat.Usage{}, err
	}
	if len(resp.Data) != n {
		return nil, chat.Usage{}, fmt.Errorf("it has %d vectors for %d texts", len(resp.Data), n)
	}
	vectors := make([][]float32, n)
	seen := make([]bool, n)
	for _, d := range resp.Data {
		if d.Index < 0 || d.Index >= n || seen[d.Index] {
			return nil, chat.Usage{}, fmt.Errorf("its vectors have the index %d twice or out of place", d.Index)
		}
		seen[d.Index], vectors[d.Index] = true, d.Embedding
	}
	for _, v := range vectors {
		switch {
		case len(v) != len(vectors[0]):
			return nil, chat.Usage{}, fmt.Errorf("its vectors have %d numbers here and %d there", len(vectors[0]), len(v))
		case directionless(v):
			return nil, chat.Usage{}, errNoDirection
		}
	}
	resp.Usage.PromptTokens = cmp.Or(resp.Usage.PromptTokens, resp.Usage.TotalTokens) // some say the sum alone
	return vectors, e.usage(resp.Usage), nil
}

// directionless says whether the square of the vector's length is no normal float32, in which dot products are taken.
func directionless(v []float32) bool {
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	const leastNormal = 0x1p-126
	return !(square >= leastNormal && square <= math.MaxFloat32) // also NaN
}

// DimensionError is returned when vectors have another length than those before: another model goes by the name now.
// No call to the same Embedder succeeds until the server goes back; vectors of the two models must not meet.
type DimensionError struct {
	Model    string
	Had, Got int
}

func (e *DimensionError) Error() string {
	return fmt.Sprintf("the model %q gives vectors of %d numbers, and gave %d before: it is another model", e.Model, e.Got, e.Had)
}

// sameDimension compares a dimension with that of all vectors before. The first sets the measure.
func (e *Embedder) sameDimension(got int) error {
	e.dimension.CompareAndSwap(0, int64(got))
	if had := int(e.dimension.Load()); had != got {
		return &DimensionError{Model: e.cfg.Model, Had: had, Got: got}
	}
	return nil
}

package openai

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

	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
	"debrief/playbook/text"
)

const (
	// batchTexts is the maximum number of texts in a request. OpenAI accepts 2,048, others fewer, and larger requests
	// are not cheaper.
	batchTexts = 256
	// batchBytes keeps a request below OpenAI's limit of 300,000 tokens, even with one token for each byte.
	batchBytes = 256 << 10
	// textBytes is about 8,000 tokens, below the limit of 8,192 of OpenAI's models.
	textBytes = 27_200
	// minTextBytes fit into every model. Texts are not truncated to fewer bytes.
	minTextBytes = 256

	// frameBytes and vectorBytes limit the response: for each text 8,192 numbers of 32 bytes, indented as OpenAI's
	// are.
	frameBytes  = 64 << 10
	vectorBytes = 256 << 10
)

// Embedder computes embeddings with POST /embeddings. It is safe for concurrent use.
type Embedder struct {
	caller
	// The limits learned from the server, for the life of the Embedder.
	noEncodingFormat atomic.Bool  // omit encoding_format
	maxTexts         atomic.Int64 // maximum texts in a request
	maxTextBytes     atomic.Int64 // maximum bytes of a text
}

// NewEmbedder returns an embedder with defaults filled in, or the errors of all invalid fields. It sends no request.
func NewEmbedder(cfg Config) (*Embedder, error) {
	return newEmbedder(cfg, newTransport(cfg.WithDefaults().MaxConcurrent))
}

func newEmbedder(cfg Config, base http.RoundTripper) (*Embedder, error) {
	s, err := newServer(cfg.EmbedderDefaults(), base)
	if err != nil {
		return nil, err
	}
	e := &Embedder{caller: caller{server: s}}
	e.maxTexts.Store(batchTexts)
	e.maxTextBytes.Store(textBytes)
	return e, nil
}

// Model returns the name of the model. Vectors of different models cannot be compared.
func (e *Embedder) Model() string { return e.cfg.Model }

// Embed returns one vector for each text, in the order of the texts. Every vector is finite and not zero. The vectors are not normalised.
// Their dimension may change if the server uses another model under the same name, so the caller must compare the lengths.
//
// Blanks around a text are removed. A blank text counts as a single space, because servers refuse empty texts. A text
// is truncated to about 8,000 tokens (27,200 bytes), or to the model's limit if that is lower.
//
// On an error Embed returns no vectors. The package comment lists the errors.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, 0, len(texts))
	for len(vectors) < len(texts) {
		batch := e.batch(texts[len(vectors):])
		more, err := e.embed(ctx, batch)
		if err != nil {
			if e.shrinkBatch(err, len(batch)) {
				continue
			}
			return nil, err
		}
		vectors = append(vectors, more...)
	}
	return vectors, nil
}

// batch returns the texts of the next request, at least one.
func (e *Embedder) batch(texts []string) []string {
	maxTexts, longest := int(e.maxTexts.Load()), int(e.maxTextBytes.Load())
	n, bytes := 0, 0
	for n < min(maxTexts, len(texts)) {
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
	var input []string
	var req openai.EmbeddingRequest
	var vectors [][]float32
	err := e.do(ctx, call{
		operation: "embeddings",
		maxBody:   frameBytes + int64(len(texts))*vectorBytes,
		keptBody:  maxHead,
		send: func(ctx context.Context, _ *exchange) (usage chat.Usage, err error) {
			input = prepare(texts, e.maxTextBytes.Load()) // adapt may have lowered the limit
			req = e.request(input)
			vectors, usage, err = e.send(ctx, req, len(input))
			return usage, err
		},
		adapt: func(err *Error, body errorBody) bool {
			switch {
			case err.kind == refused && req.EncodingFormat != "" && body.mentions("encoding_format"):
				e.noEncodingFormat.Store(true)
				return true
			case isTextTooLong(err, body):
				return e.shorten(input)
			}
			return false
		},
	})
	if err != nil {
		return nil, err
	}
	return vectors, nil
}

// prepare returns texts as they are sent: at most longest bytes each, valid UTF-8, and never empty.
func prepare(texts []string, longest int64) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		t = strings.TrimSpace(strings.ReplaceAll(t, "\x00", " ")) // NUL ends a text in servers written in C
		out[i] = cmp.Or(text.Prefix(t, int(longest)), " ")
	}
	return out
}

func (e *Embedder) request(input []string) openai.EmbeddingRequest {
	req := openai.EmbeddingRequest{Model: openai.EmbeddingModel(e.cfg.Model), Input: input}
	if !e.noEncodingFormat.Load() {
		req.EncodingFormat = openai.EmbeddingEncodingFormatFloat // the default of some servers is base64
	}
	return req
}

var (
	tokenWords = regexp.MustCompile(`(?i)tokens|context|too large to process`)
	batchWords = regexp.MustCompile(`(?i)batch|per request|request size|too many inputs`)
)

// isTextTooLong reports whether one text is longer than the model's limit. llama.cpp reports that with a 500. A 429
// is about the account's rate. A 413 that does not mention tokens is a proxy's limit for the whole request.
func isTextTooLong(err *Error, body errorBody) bool {
	switch {
	case err.Status == http.StatusTooManyRequests:
		return false
	case err.kind == tooLong:
		return tokenWords.MatchString(body.Code + " " + body.Text)
	}
	return body.mentions("too large to process")
}

// shorten halves the maximum length of a text. It reports whether the request should be sent again.
func (e *Embedder) shorten(sent []string) bool {
	longest := 0
	for _, t := range sent {
		longest = max(longest, len(t))
	}
	if longest/2 < minTextBytes {
		return false
	}
	lower(&e.maxTextBytes, int64(longest/2))
	return true
}

// lower reduces a limit, unless another call has reduced it further.
func lower(limit *atomic.Int64, to int64) {
	for {
		now := limit.Load()
		if now <= to || limit.CompareAndSwap(now, to) {
			return
		}
	}
}

// shrinkBatch halves the number of texts in a request if the error is about the size of the request. It reports
// whether the texts should be sent again.
func (e *Embedder) shrinkBatch(err error, sent int) bool {
	if sent == 1 {
		return false
	}
	_, isTooLong := errors.AsType[*chat.TooLongError](err)
	refusal, ok := errors.AsType[*Error](err)
	isRefusedBatch := ok && refusal.kind == refused && batchWords.MatchString(refusal.Text)
	if !isTooLong && !isRefusedBatch {
		return false
	}
	lower(&e.maxTexts, int64(sent/2))
	return true
}

// errNoDirection is returned for a vector that cannot be compared with others. It depends on the text, so a retry
// does not help: 16-bit models overflow, and llama.cpp writes null for NaN.
var errNoDirection = errors.New("a vector is empty, all zeros or beyond float32")

// send sends one request for n vectors and sorts them in the order of the texts. Servers may return another order.
func (e *Embedder) send(ctx context.Context, req openai.EmbeddingRequest, n int) ([][]float32, chat.Usage, error) {
	resp, err := e.openai.CreateEmbeddings(ctx, req)
	if err != nil {
		return nil, chat.Usage{}, err
	}
	if len(resp.Data) != n {
		return nil, chat.Usage{}, fmt.Errorf("got %d vectors for %d texts", len(resp.Data), n)
	}
	vectors := make([][]float32, n)
	seen := make([]bool, n)
	for _, d := range resp.Data {
		if d.Index < 0 || d.Index >= n || seen[d.Index] {
			return nil, chat.Usage{}, fmt.Errorf("duplicate or invalid vector index %d", d.Index)
		}
		seen[d.Index] = true
		vectors[d.Index] = d.Embedding
	}
	for _, v := range vectors {
		switch {
		case len(v) != len(vectors[0]):
			return nil, chat.Usage{}, fmt.Errorf("vectors of different dimensions: %d and %d", len(vectors[0]), len(v))
		case hasNoDirection(v):
			return nil, chat.Usage{}, errNoDirection
		}
	}
	resp.Usage.PromptTokens = cmp.Or(resp.Usage.PromptTokens, resp.Usage.TotalTokens) // some servers report only the total
	return vectors, e.usage(resp.Usage), nil
}

// hasNoDirection reports whether the squared length of a vector is not a normal float32. Dot products use float32.
func hasNoDirection(v []float32) bool {
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	const leastNormal = 0x1p-126
	return !(square >= leastNormal && square <= math.MaxFloat32) // also NaN
}

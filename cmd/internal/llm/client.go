// Package llm speaks to OpenAI-compatible servers: OpenAI, vLLM, Ollama, llama.cpp, and proxies. Client is the chat.Model,
// Embedder turns texts into vectors.
//
// A call passes, in this order, the rate limits, the bulkhead, the retries with their budget, the breaker and the
// timeout of one attempt. What comes out is a reply or an error that says by its behaviour what to do:
//
//	*chat.UnavailableError  nobody can be asked now: pause the role. The server is down, busy beyond patience, or
//	                        refuses the key, the model or the account; the text says what a person has to do.
//	*chat.TooLongError      shrink the prompt.
//	*Error                  the server refused this one prompt, or these texts.
//	*DimensionError         the vectors are of another model than those before.
//	the context's error     the caller gave up.
//
// The package reads no environment. What it says of failed attempts goes to the log of the context. The key is in no error
// and no text that it makes.
package llm

import (
	"context"
	"net/http"

	"github.com/sashabaranov/go-openai"
	"go.opentelemetry.io/otel/trace"
	_ "golang.org/x/crypto/x509roots/fallback" // an image with nothing but the program has no authorities to trust

	"debrief/events/chat"
)

// Client is a chat.Model. It is safe for concurrent use.
type Client struct {
	*server
	dialect dialect
}

var _ chat.Model = (*Client)(nil)

// New fills in defaults, validates, and allocates. It does not speak to the server.
func New(cfg Config) (*Client, error) {
	return newClient(cfg, newTransport(cfg.WithDefaults().MaxConcurrent))
}

func newClient(cfg Config, base http.RoundTripper) (*Client, error) {
	s, err := newServer(cfg, chatSettings, base)
	if err != nil {
		return nil, err
	}
	return &Client{server: s}, nil
}

// Complete implements chat.Model. The package comment lists its errors.
func (c *Client) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	var req openai.ChatCompletionRequest
	var reply chat.Reply
	err := c.do(ctx, call{
		operation: "chat",
		estimate:  estimateTokens(p),
		most:      maxReply,
		send: func(ctx context.Context, x *exchange) (usage chat.Usage, err error) {
			req = c.request(p)
			if x.request, err = wireRequest(req, p.Messages); err != nil {
				return usage, err
			}
			reply, err = c.send(ctx, req)
			if span := trace.SpanFromContext(ctx); err == nil && span.IsRecording() {
				span.SetAttributes(keyAnswered.String(reply.Model), keyFinish.StringSlice([]string{reply.Finish}))
			}
			return reply.Usage, err
		},
		learn: func(e *Error, s said) bool { return c.dialect.learn(e, s, &req) },
	})
	if err != nil {
		return chat.Reply{}, err
	}
	return reply, nil
}

// estimateTokens is a guess at what the prompt costs, before the server says.
func estimateTokens(p chat.Prompt) int {
	n := chat.Tokens(string(p.Schema))
	for i := range p.Messages {
		n += p.Messages[i].Tokens()
	}
	return n
}

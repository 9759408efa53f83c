// Package openai is a client for OpenAI-compatible servers: OpenAI, vLLM, Ollama, llama.cpp, and proxies. Client
// implements chat.Model. Embedder computes embeddings.
//
// A call passes, in this order, the retries, the limit of concurrent requests, the circuit
// breaker and the timeout of one attempt. It returns a reply or one of these errors:
//
//	*chat.UnavailableError  no call can succeed now: pause the role. The server is down or busy for too long,
//	                        or it refuses the key, the model or the account. The text says how to fix it.
//	*chat.TooLongError      shorten the prompt.
//	*Error                  the server refused this one prompt, or these texts.
//	the context's error     the caller's context ended.
//
// The package reads no environment variables. It logs failed attempts to the logger of the context. The key is in no
// error and no text.
package openai

import (
	"context"
	"net/http"

	"github.com/sashabaranov/go-openai"
	"go.opentelemetry.io/otel/trace"
	_ "golang.org/x/crypto/x509roots/fallback" // for images without certificate authorities

	"debrief/events/chat"
)

// Client implements chat.Model. It is safe for concurrent use.
type Client struct {
	caller
	dialect *dialect
}

var _ chat.Model = (*Client)(nil)

// New returns a client with defaults filled in, or an error for each invalid setting. It sends no request.
func New(cfg Config) (*Client, error) {
	return newClient(cfg, newTransport(cfg.WithDefaults().MaxConcurrent))
}

func newClient(cfg Config, base http.RoundTripper) (*Client, error) {
	s, err := newServer(cfg, base)
	if err != nil {
		return nil, err
	}
	return &Client{caller: caller{server: s}, dialect: new(dialect)}, nil
}

// Share returns another client of the same model, for another role of the process. Both have the same limits, circuit breaker and dialect,
// and each has its own counters.
func (c *Client) Share() *Client {
	return &Client{caller: caller{server: c.server}, dialect: c.dialect}
}

// Complete implements chat.Model. The package comment lists its errors.
func (c *Client) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	var req openai.ChatCompletionRequest
	var messages []chat.Message // of the last request
	var reply chat.Reply
	err := c.do(ctx, call{
		operation: "chat",
		maxBody:   maxReply,
		keptBody:  maxReply, // the whole body
		send: func(ctx context.Context, x *exchange) (usage chat.Usage, err error) {
			req, messages = c.request(p), c.dialect.messages(p.Messages)
			if x.request, err = wireRequest(req, messages); err != nil {
				return usage, err
			}
			reply, err = c.send(ctx, req, x)
			if span := trace.SpanFromContext(ctx); err == nil && span.IsRecording() {
				span.SetAttributes(keyAnswered.String(reply.Model), keyFinish.StringSlice([]string{reply.Finish}))
			}
			return reply.Usage, err
		},
		adapt: func(e *Error, body errorBody) bool { return c.dialect.adapt(e, body, &req, messages) },
	})
	if err != nil {
		return chat.Reply{}, err
	}
	return reply, nil
}

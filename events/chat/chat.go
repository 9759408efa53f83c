// Package chat defines the interface between a role and a language model: prompt, reply and errors. It depends on
// no provider and no protocol; events/chat/openai implements it. The package also contains
//
//   - the tolerant parser for JSON in model output: ParseObject and ParseList, with the names of fields in dialect.go,
//   - the retry policy for unparsable output: Ask,
//   - the quality of replies: ObserveReplies.
//
// The instructions that Generators and Reflectors send to models are here too (prompts_*.go), in a package that all roles import, because
// the Curator refuses content that repeats them. Its own instructions are in package propose. The forms of the replies are beside the code
// that reads them.
package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"debrief/playbook/text"
)

// Speakers of a message: the roles of the OpenAI API.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"
)

// Message is one message of a conversation. Its JSON has the form of the OpenAI API.
type Message struct {
	Speaker string `json:"role"`
	Text    string `json:"content"`
	// Calls are the tool calls of an assistant message. The Tool messages with their results must follow
	// immediately.
	Calls []Call `json:"tool_calls,omitempty"`
	// CallID is the id of the call that a Tool message answers.
	CallID string `json:"tool_call_id,omitempty"`
}

// Call is a tool call.
type Call struct {
	ID        string
	Tool      string
	Arguments string // JSON, as the model wrote it
}

// wireCall is a tool call in the OpenAI API.
type wireCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (c Call) MarshalJSON() ([]byte, error) {
	w := wireCall{ID: c.ID, Type: "function"}
	w.Function.Name = c.Tool
	w.Function.Arguments = c.Arguments
	return json.Marshal(w)
}

func (c *Call) UnmarshalJSON(data []byte) error {
	var w wireCall
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*c = Call{ID: w.ID, Tool: w.Function.Name, Arguments: w.Function.Arguments}
	return nil
}

// Fingerprint returns 8 hex digits of the SHA-256 of a text, to distinguish versions of prompts.
func Fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// Digest returns a SHA-256 that identifies a conversation. It covers all parts of the messages, each followed by a
// NUL byte.
func Digest(messages []Message) []byte {
	h := sha256.New()
	part := func(s string) {
		_, _ = io.WriteString(h, s)
		_, _ = h.Write([]byte{0})
	}
	for i := range messages {
		m := &messages[i]
		part(m.Speaker)
		part(m.Text)
		for _, c := range m.Calls {
			part("call")
			part(c.ID)
			part(c.Tool)
			part(c.Arguments)
		}
		if m.CallID != "" {
			part("answers")
			part(m.CallID)
		}
	}
	return h.Sum(nil)
}

// Prompt is a request to a model.
type Prompt struct {
	// Name is the role that sends the prompt: "generator", "reflector" or "curator". It is the name of the schema
	// in the request.
	Name     string
	Messages []Message
	// Schema is the JSON schema of the reply, for servers with structured outputs. The first message describes the same form in words.
	// For each role one field of the reply is enough: final_answer for a Generator, key_insight for a Reflector ("" for none), and operations
	// for a Curator ([] for none). Nil requests plain text.
	Schema json.RawMessage
	// MaxTokens limits the length of the reply; 0 selects the default of the adapter.
	MaxTokens int
}

// Reply is the answer of a model.
type Reply struct {
	Text string
	// Thoughts are the thoughts of a reasoning model, if the server sends them beside the text. Some servers send the JSON of a reply
	// there and no text.
	Thoughts string
	// Model is the name of the model, for records and prices.
	Model string
	// Finish is the finish reason: "stop", or "length" if the text was truncated.
	Finish string
	Usage  Usage

	// Repaired, if not nil, points to a variable that ParseObject sets to true if it repairs the JSON. Ask passes such a pointer to
	// its function parse.
	Repaired *bool
}

// Truncated reports whether the length limit truncated the text.
func (r Reply) Truncated() bool { return r.Finish == "length" }

// Usage is the cost of one or more calls.
type Usage struct {
	Calls        int     `msgpack:"c,omitempty" json:"calls"`
	InputTokens  int     `msgpack:"i,omitempty" json:"input_tokens"`
	OutputTokens int     `msgpack:"o,omitempty" json:"output_tokens"`
	Cost         float64 `msgpack:"d,omitempty" json:"cost"` // US dollars; 0 if the price is unknown
	// CachedTokens are the input tokens that the provider read from its cache. InputTokens contains them.
	CachedTokens int `msgpack:"ct,omitempty" json:"cached_input_tokens,omitempty"`
	// Duration is the time from each call to its reply, with retries and waits for limits. Concurrent calls add up. It is 0
	// if it was not measured.
	Duration time.Duration `msgpack:"t,omitempty" json:"duration_ns,omitempty"`
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Calls: u.Calls + v.Calls, InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		Cost: u.Cost + v.Cost, CachedTokens: u.CachedTokens + v.CachedTokens, Duration: u.Duration + v.Duration,
	}
}

// Recorded returns the usage as another program recorded it, with 0 in place of a negative number and of a cost that is NaN or implausible.
func (u Usage) Recorded() Usage {
	const maxCost = 1e9 // dollars: a larger cost is an error of the other program
	if math.IsNaN(u.Cost) || u.Cost < 0 || u.Cost > maxCost {
		u.Cost = 0
	}
	return Usage{
		Calls: max(0, u.Calls), InputTokens: max(0, u.InputTokens), OutputTokens: max(0, u.OutputTokens),
		Cost: u.Cost, CachedTokens: max(0, u.CachedTokens), Duration: max(0, u.Duration),
	}
}

// Tokens returns the sum of input and output tokens.
func (u Usage) Tokens() int { return u.InputTokens + u.OutputTokens }

// Model answers prompts. Callers classify its errors by their methods: Unavailable, RetryAfter, Unasked,
// Misconfigured and TooLong, and Useless for an error of Ask. Any other error is a failed attempt at the event that the role handles, and the
// event becomes a dead letter after several of them. Implementations must be safe for concurrent use.
type Model interface {
	Complete(ctx context.Context, p Prompt) (Reply, error)
}

// ModelFunc is a function that implements Model, for tests and for models without a client.
type ModelFunc func(ctx context.Context, p Prompt) (Reply, error)

func (f ModelFunc) Complete(ctx context.Context, p Prompt) (Reply, error) { return f(ctx, p) }

// Waiting returns why calls of a model wait now, such as "rate limited", or "". Models that know it have a method Waiting.
func Waiting(m Model) string {
	if w, ok := m.(interface{ Waiting() string }); ok {
		return w.Waiting()
	}
	return ""
}

// Reserve waits until the model can take another call. A caller that makes its prompt after this wait has the newest advice in it. The
// first call with the returned context does not wait again. The caller must call release, which gives back a reservation that no call has used.
// Models whose calls wait have a method Reserve; for others Reserve returns ctx at once.
func Reserve(ctx context.Context, m Model) (reserved context.Context, release func(), err error) {
	if r, ok := m.(interface {
		Reserve(ctx context.Context) (context.Context, func(), error)
	}); ok {
		return r.Reserve(ctx)
	}
	return ctx, func() {}, nil
}

// UnavailableError means that the model is temporarily unavailable. The request is valid and can be retried later.
type UnavailableError struct {
	Err   error
	After time.Duration // delay before the next attempt; 0 if unknown
	// NotSent (method Unasked) is set if no request was sent, because earlier requests had failed. Such an error says nothing about the
	// prompt.
	NotSent bool
	// Permanent (method Misconfigured) is set if every request probably fails until a person changes a setting, the account or the server. The server refuses
	// the key, the model, the address or the account, or it was never reachable.
	Permanent bool
}

func (e *UnavailableError) Error() string             { return fmt.Sprintf("model unavailable: %v", e.Err) }
func (e *UnavailableError) Unwrap() error             { return e.Err }
func (e *UnavailableError) Unavailable() bool         { return true }
func (e *UnavailableError) RetryAfter() time.Duration { return e.After }
func (e *UnavailableError) Unasked() bool             { return e.NotSent }
func (e *UnavailableError) Misconfigured() bool       { return e.Permanent }

// UselessError means that the model's answers were invalid, in all calls of Ask.
type UselessError struct {
	Err  error
	Text string // the beginning of the last answer
}

func (e *UselessError) Error() string {
	return fmt.Sprintf("model output useless: %v: %q", e.Err, e.Text)
}
func (e *UselessError) Unwrap() error { return e.Err }
func (e *UselessError) Useless() bool { return true }

// Loggable returns the error without the text of the model, which must not appear in logs.
func (e *UselessError) Loggable() string {
	return fmt.Sprintf("model output useless: %s", text.Excerpt(e.Err.Error(), maxExcerpt))
}

// TooLongError means that the prompt exceeds the context of the model. A retry needs a shorter prompt.
type TooLongError struct{ Err error }

func (e *TooLongError) Error() string { return fmt.Sprintf("prompt too long for the model: %v", e.Err) }
func (e *TooLongError) Unwrap() error { return e.Err }
func (e *TooLongError) TooLong() bool { return true }

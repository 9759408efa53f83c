// Package chat is the shape in which a role talks to a language model: a prompt, a reply, and what can go wrong.
// It knows no provider and no wire; cmd/internal/llm adapts one. It also owns the one tolerant reader of JSON that
// models write (Object) and the one policy of asking again when it cannot be read (Ask).
package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Speakers of a message, as on the OpenAI wire.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"
)

// Message is one turn of a conversation. Its JSON is that of the OpenAI wire.
type Message struct {
	Speaker string `json:"role"`
	Text    string `json:"content"`
	// Calls are the tools that an assistant's turn calls. Each is answered by a Tool message that comes right after.
	Calls []Call `json:"tool_calls,omitempty"`
	// CallID is the call that a Tool message answers.
	CallID string `json:"tool_call_id,omitempty"`
}

// Call is one call of a tool.
type Call struct {
	ID        string
	Tool      string
	Arguments string // JSON, as the model wrote it
}

// wireCall is a call as the OpenAI wire has it.
type wireCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// MarshalJSON implements json.Marshaler.
func (c Call) MarshalJSON() ([]byte, error) {
	w := wireCall{ID: c.ID, Type: "function"}
	w.Function.Name, w.Function.Arguments = c.Tool, c.Arguments
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Call) UnmarshalJSON(data []byte) error {
	var w wireCall
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*c = Call{w.ID, w.Function.Name, w.Function.Arguments}
	return nil
}

// Fingerprint tells texts of ours apart, such as prompts: 8 hex digits of its SHA-256.
func Fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// Digest tells one conversation from another: SHA-256 over its messages, each part ended by a NUL.
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

// Prompt is what is sent to a model.
type Prompt struct {
	// Name says which role asks: "generator", "reflector" or "curator". It names the schema on the wire.
	Name     string
	Messages []Message
	// Schema is the JSON schema of the reply, for servers with structured outputs; nil asks for plain text.
	Schema json.RawMessage
	// MaxTokens bounds the reply; 0 leaves it to the adapter.
	MaxTokens int
}

// Reply is what a model answered.
type Reply struct {
	Text  string
	Model string
	// Finish is the wire's finish reason: "stop", or "length" when the text was cut.
	Finish string
	Usage  Usage
}

// Usage is what one or more calls cost.
type Usage struct {
	Calls        int     `msgpack:"c,omitempty" json:"calls"`
	InputTokens  int     `msgpack:"i,omitempty" json:"input_tokens"`
	OutputTokens int     `msgpack:"o,omitempty" json:"output_tokens"`
	Cost         float64 `msgpack:"d,omitempty" json:"cost"` // US dollars, 0 when no price is known
}

// Add is the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Calls + v.Calls, u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens, u.Cost + v.Cost}
}

// Tokens is what went in and came out.
func (u Usage) Tokens() int { return u.InputTokens + u.OutputTokens }

// Cut says whether the length limit ended the text before the model did.
func (r Reply) Cut() bool { return r.Finish == "length" }

// Model answers prompts. Errors steer by behaviour: Unavailable, RetryAfter, Unasked, TooLong; and Useless where Ask was used.
type Model interface {
	Complete(ctx context.Context, p Prompt) (Reply, error)
}

// UnavailableError says that no model can be reached now: the work is fine and waits.
type UnavailableError struct {
	Err   error
	After time.Duration // when to try again, 0 if unknown
	// NotSent says that nobody was asked, because of how others had fared: it says nothing about the prompt.
	NotSent bool
}

func (e *UnavailableError) Error() string             { return fmt.Sprintf("model unavailable: %v", e.Err) }
func (e *UnavailableError) Unwrap() error             { return e.Err }
func (e *UnavailableError) Unavailable() bool         { return true }
func (e *UnavailableError) RetryAfter() time.Duration { return e.After }
func (e *UnavailableError) Unasked() bool             { return e.NotSent }

// UselessError says that a model answered, and what it said cannot be used even after being asked again.
type UselessError struct {
	Err  error
	Text string // the beginning of the last answer
}

func (e *UselessError) Error() string {
	return fmt.Sprintf("model output useless: %v: %q", e.Err, e.Text)
}
func (e *UselessError) Unwrap() error { return e.Err }
func (e *UselessError) Useless() bool { return true }

// Loggable is the error without what the model said, which belongs into no log.
func (e *UselessError) Loggable() string {
	return fmt.Sprintf("model output useless: %s", clip(e.Err.Error(), maxExcerpt))
}

// TooLongError says that the prompt does not fit the model's context: sent again it fails again, so shrink it.
type TooLongError struct{ Err error }

func (e *TooLongError) Error() string { return fmt.Sprintf("prompt too long for the model: %v", e.Err) }
func (e *TooLongError) Unwrap() error { return e.Err }
func (e *TooLongError) TooLong() bool { return true }

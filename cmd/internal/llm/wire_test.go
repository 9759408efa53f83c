package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"debrief/events/chat"
)

func TestTheRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		cfg    Config
		prompt chat.Prompt
		want   map[string]string // "" is a field that is not there
	}{
		{
			"temperature 0 is sent as the smallest there is",
			Config{},
			chat.Prompt{},
			map[string]string{"temperature": "1e-45", "model": `"test-model"`, "stream": "false"},
		},
		{
			"another temperature is sent as it is",
			Config{Temperature: 0.7},
			chat.Prompt{},
			map[string]string{"temperature": "0.7"},
		},
		{
			"nothing bounds the reply",
			Config{},
			chat.Prompt{},
			map[string]string{"max_tokens": "", "max_completion_tokens": ""},
		},
		{
			"the configuration bounds the reply",
			Config{MaxTokens: 100},
			chat.Prompt{},
			map[string]string{"max_tokens": "100", "max_completion_tokens": ""},
		},
		{
			"the prompt knows better",
			Config{MaxTokens: 100},
			chat.Prompt{MaxTokens: 50},
			map[string]string{"max_tokens": "50"},
		},
		{
			"reasoning models get what they understand",
			Config{Model: "o3-mini", MaxTokens: 100},
			chat.Prompt{},
			map[string]string{"temperature": "", "max_tokens": "", "max_completion_tokens": "100"},
		},
		{
			"so do the newest",
			Config{Model: "gpt-5-mini"},
			chat.Prompt{MaxTokens: 7},
			map[string]string{"temperature": "", "max_tokens": "", "max_completion_tokens": "7"},
		},
		{
			"no schema is no format",
			Config{},
			chat.Prompt{Name: "curator"},
			map[string]string{"response_format": ""},
		},
		{
			"a schema is strict",
			Config{},
			chat.Prompt{Name: "curator", Schema: json.RawMessage(`{"type":"object"}`)},
			map[string]string{"response_format": `{"type":"json_schema","json_schema":{"name":"curator","schema":{"type":"object"},"strict":true}}`},
		},
		{
			"a schema that is not wanted",
			Config{NoSchema: true},
			chat.Prompt{Name: "curator", Schema: json.RawMessage(`{"type":"object"}`)},
			map[string]string{"response_format": ""},
		},
		{
			"a stream asks for its usage",
			Config{Stream: true},
			chat.Prompt{},
			map[string]string{"stream": "true", "stream_options": `{"include_usage":true}`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, tt.cfg, []http.HandlerFunc{whole(tt.cfg.Stream, "Hi.")}, func(t *testing.T, c *Client, f *fake) {
				tt.prompt.Messages = []chat.Message{{Speaker: chat.User, Text: "Hello?"}}
				if _, err := c.Complete(t.Context(), tt.prompt); err != nil {
					t.Fatal(err)
				}
				for field, want := range tt.want {
					if got := f.seen()[0].field(t, field); got != want {
						t.Errorf("%s: got %s, want %s", field, got, want)
					}
				}
			})
		})
	}
}

// A server that refuses what a request need not have is asked again without it, at once and for ever after.
func TestWhatTheServerDoesNotUnderstandIsLeftOut(t *testing.T) {
	t.Parallel()
	schema := chat.Prompt{
		Name: "curator", Schema: json.RawMessage(`{"type":"object"}`), MaxTokens: 9,
		Messages: []chat.Message{{Speaker: chat.User, Text: "Hello?"}},
	}
	for _, tt := range []struct {
		field   string
		refusal string
		instead string
	}{
		{"response_format", `{"error":{"message":"'response_format.type' must be 'text'"}}`, ""},
		{"response_format", `{"error":{"message":"Invalid parameter","param":"response_format"}}`, ""},
		{"response_format", `{"error":"json_schema is not supported by this model"}`, ""},
		{"stream_options", `{"detail":"Unrecognized request argument: stream_options"}`, ""},
		{"temperature", `{"error":{"message":"Unsupported value: 'temperature' does not support 0","param":"temperature"}}`, ""},
		{"max_tokens", `{"error":{"message":"Unsupported parameter: use 'max_completion_tokens' instead.","param":"max_tokens"}}`, "max_completion_tokens"},
	} {
		t.Run(tt.field+" "+tt.refusal, func(t *testing.T) {
			t.Parallel()
			replies := repeat(1, status(400, tt.refusal), whole(true, "Hi."))
			simulate(t, Config{Stream: true}, replies, func(t *testing.T, c *Client, f *fake) {
				for range 2 {
					if _, err := c.Complete(t.Context(), schema); err != nil {
						t.Fatal(err)
					}
				}
				seen := f.seen()
				if len(seen) != 3 {
					t.Fatalf("got %d requests, want 3", len(seen))
				}
				if seen[0].field(t, tt.field) == "" {
					t.Errorf("first request: got no %s", tt.field)
				}
				for _, r := range seen[1:] {
					if r.field(t, tt.field) != "" || r.Header.Get("X-Stainless-Retry-Count") != "0" {
						t.Errorf("later request: got %s, attempt %s", r.Body, r.Header.Get("X-Stainless-Retry-Count"))
					}
					if tt.instead != "" && r.field(t, tt.instead) != "9" {
						t.Errorf("later request: got no %s", tt.instead)
					}
				}
				if got := c.Stats(); !slices.Equal(got.Without, []string{tt.field}) || got.Retries != 0 {
					t.Errorf("got stats %+v, want them to say that %s is left out", got, tt.field)
				}
			})
		})
	}
}

func TestAServerThatKeepsComplainingIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	simulate(t, Config{}, []http.HandlerFunc{status(400, `{"error":{"message":"response_format and temperature are not understood"}}`)},
		func(t *testing.T, c *Client, f *fake) {
			_, err := c.Complete(t.Context(), chat.Prompt{Schema: json.RawMessage(`{}`), Messages: []chat.Message{{Speaker: chat.User, Text: "?"}}})
			if got := len(f.seen()); verdict(err) != "refused" || got != 3 {
				t.Errorf("got %v after %d requests, want a refusal after 3", err, got)
			}
		})
}

func TestWhatCannotBeSentIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, model, schema, verdict string }{
		{"a schema that is no JSON is the prompt's fault", "", `{`, "refused"},
		{"a model that does not chat is everybody's", "text-davinci-003", `{}`, "unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, Config{Model: tt.model}, []http.HandlerFunc{answer("Hi.")}, func(t *testing.T, c *Client, f *fake) {
				_, err := c.Complete(t.Context(), chat.Prompt{Schema: json.RawMessage(tt.schema)})
				if s := c.Stats(); verdict(err) != tt.verdict || len(f.seen()) != 0 || s.Retries != 0 || s.Breaker != "closed" {
					t.Errorf("got %v after %d requests, stats %+v, want %s", err, len(f.seen()), s, tt.verdict)
				}
			})
		})
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	const (
		hel   = `{"model":"test-model-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}`
		lo    = `{"model":"test-model-1","choices":[{"index":0,"delta":{"content":"lo"}}]}`
		stop  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		limit = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
		usage = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}`
		other = `{"choices":[{"index":1,"delta":{"content":"another answer"}}]}`
	)
	comments := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, strings.Repeat(": still alive\n\n", 1000))
		stream(true, hel, lo, stop, usage)(w, r)
	}
	for _, tt := range []struct {
		name    string
		replies []http.HandlerFunc
		text    string
		finish  string
		tokens  int
		tries   int
	}{
		{"a whole one", repeat(0, nil, stream(true, hel, lo, stop, usage)), "Hello", "stop", 12, 1},
		{"one that ends at the limit", repeat(0, nil, stream(true, hel, limit, usage)), "Hel", "length", 12, 1},
		{"one without usage", repeat(0, nil, stream(true, hel, lo, stop)), "Hello", "stop", 0, 1},
		{"one cut after its finish reason is whole", repeat(0, nil, stream(false, hel, lo, stop)), "Hello", "stop", 0, 1},
		{"one cut in the middle is repeated", repeat(1, stream(false, hel), stream(true, hel, lo, stop, usage)), "Hello", "stop", 12, 2},
		{"one that is done without a finish reason is repeated", repeat(1, stream(true, hel), stream(true, hel, lo, stop, usage)), "Hello", "stop", 12, 2},
		{"one cut within a word is repeated", repeat(1, cut(200, "data: {\"choices\":[{\"ind"), stream(true, hel, lo, stop, usage)), "Hello", "stop", 12, 2},
		{"one that becomes an error is repeated", repeat(1, stream(true, hel, `{"error":{"message":"overloaded"}}`), stream(true, hel, lo, stop, usage)), "Hello", "stop", 12, 2},
		{"one with many comments", []http.HandlerFunc{comments}, "Hello", "stop", 12, 1},
		{"one with several choices", repeat(0, nil, stream(true, hel, other, lo, stop, usage)), "Hello", "stop", 12, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, Config{Stream: true}, tt.replies, func(t *testing.T, c *Client, f *fake) {
				got, err := ask(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if got.Text != tt.text || got.Finish != tt.finish || got.Usage.Tokens() != tt.tokens || got.Usage.Calls != 1 {
					t.Errorf("got %+v, want %q, %s, %d tokens", got, tt.text, tt.finish, tt.tokens)
				}
				if got := len(f.seen()); got != tt.tries {
					t.Errorf("got %d requests, want %d", got, tt.tries)
				}
			})
		})
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, text, finish string }{
		{"an empty answer is an answer", `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`, "", "stop"},
		{"so is null", `{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"content_filter"}]}`, "", "content_filter"},
		{"an answer in parts", `{"choices":[{"message":{"content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]},"finish_reason":"stop"}]}`, "Hello", "stop"},
		{"a refusal is what was said", `{"choices":[{"message":{"content":null,"refusal":"I will not."},"finish_reason":"stop"}]}`, "I will not.", "stop"},
		{"a cut answer says so", `{"choices":[{"message":{"content":"Hel"},"finish_reason":"length"}]}`, "Hel", "length"},
		{"thoughts in a field of their own stay there", `{"choices":[{"message":{"content":"Hi.","reasoning_content":"Hm."},"finish_reason":"stop"}]}`, "Hi.", "stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, Config{}, []http.HandlerFunc{status(200, tt.body)}, func(t *testing.T, c *Client, _ *fake) {
				got, err := ask(context.Background(), c)
				if err != nil || got.Text != tt.text || got.Finish != tt.finish || got.Model != "test-model" {
					t.Errorf("got %+v, error %v, want %q, %s", got, err, tt.text, tt.finish)
				}
			})
		})
	}
}

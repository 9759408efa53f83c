package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/events/chat"
)

func TestRequestBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		cfg    Config
		prompt chat.Prompt
		want   map[string]string // "" means that the field is missing
	}{
		{
			"temperature 0 is sent as 0",
			Config{},
			chat.Prompt{},
			map[string]string{"temperature": "0", "model": `"test-model"`, "stream": "false"},
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, tt.cfg, []http.HandlerFunc{answer("Hi.")}, func(t *testing.T, c *Client, f *fake) {
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

// After the refusal of an optional field, the request and all later ones are sent without it.
func TestUnsupportedFieldsAreOmitted(t *testing.T) {
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
		{"temperature", `{"error":{"message":"Unsupported value: 'temperature' does not support 0","param":"temperature"}}`, ""},
		{"max_tokens", `{"error":{"message":"Unsupported parameter: use 'max_completion_tokens' instead.","param":"max_tokens"}}`, "max_completion_tokens"},
	} {
		t.Run(tt.field+" "+tt.refusal, func(t *testing.T) {
			t.Parallel()
			replies := repeat(1, status(400, tt.refusal), answer("Hi."))
			simulate(t, Config{}, replies, func(t *testing.T, c *Client, f *fake) {
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
				if got := c.Stats(); got.Retries != 0 {
					t.Errorf("got stats %+v, want them to say that %s is left out", got, tt.field)
				}
			})
		})
	}
}

// A model without a system role gets the instructions in the message of the user, from its first refusal on, also by other roles.
func TestRefusedSystemRole(t *testing.T) {
	t.Parallel()
	const joined = `[{"role":"user","content":"Be brief.\n\nHello?"}]`
	for _, refusal := range []http.HandlerFunc{
		status(400, `{"object":"error","message":"System role not supported","type":"BadRequestError","code":400}`),
		status(400, `{"error":{"message":"Conversation roles must alternate user/assistant/user/assistant/..."}}`),
		status(400, `{"error":{"message":"Unsupported value: 'messages[0].role' does not support 'system' with this model.","param":"messages[0].role"}}`),
		status(422, `{"detail":"Only user and assistant roles are supported!"}`),
		status(422, `{"detail":[{"type":"literal_error","loc":["body","messages",0,"role"],"msg":"Input should be 'user' or 'assistant'"}]}`),
		status(422, `{"detail":[{"loc": ["body", "messages", 0, "role"], "msg": "value is not a valid enumeration member"}]}`),
		status(400, `{"error":{"message":"Developer instruction is not enabled for models/gemma-3-27b-it"}}`),
		status(500, `{"error":{"code":500,"message":"Jinja Exception: System role not supported","type":"server_error"}}`),
	} {
		simulate(t, Config{}, []http.HandlerFunc{refusal, answer("Hi.")}, func(t *testing.T, c *Client, f *fake) {
			for _, role := range []*Client{c, c.Share()} {
				if _, err := ask(t.Context(), role); err != nil {
					t.Fatal(err)
				}
			}
			seen := f.seen()
			if len(seen) != 3 || seen[1].field(t, "messages") != joined || seen[2].field(t, "messages") != joined {
				t.Errorf("got %+v, want the refused request and two with the instructions in the user's message", seen)
			}
			if got := c.Stats(); got.Retries != 0 {
				t.Errorf("got stats %+v", got)
			}
		})
	}
}

// A refusal about something else is not about the system role.
func TestOtherRefusalsKeepTheSystemRole(t *testing.T) {
	t.Parallel()
	simulate(t, Config{}, []http.HandlerFunc{status(400, `{"error":{"message":"messages: too many images"}}`)}, func(t *testing.T, c *Client, f *fake) {
		if _, err := ask(t.Context(), c); verdict(err) != "refused" || len(f.seen()) != 1 {
			t.Errorf("got %v after %d requests, want one refusal", err, len(f.seen()))
		}
	})
}

func TestInstructionsWithoutSystemRole(t *testing.T) {
	t.Parallel()
	d := new(dialect)
	d.missing[systemRole].Store(true)
	got := d.messages([]chat.Message{{Speaker: chat.System, Text: "a"}, {Speaker: chat.Assistant, Text: "b"}, {Speaker: chat.System, Text: "c"}})
	want := []chat.Message{{Speaker: chat.User, Text: "a\n\nc"}, {Speaker: chat.Assistant, Text: "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Some servers send the reply as thoughts, under either name.
func TestThoughts(t *testing.T) {
	t.Parallel()
	message := func(fields string) http.HandlerFunc {
		return status(200, `{"choices":[{"index":0,"message":{"role":"assistant",`+fields+`},"finish_reason":"stop"}]}`)
	}
	long := strings.Repeat("x", 2*maxHead)
	for _, tt := range []struct {
		name     string
		reply    http.HandlerFunc
		text     string
		thoughts string
	}{
		{"reasoning_content without a content", message(`"content":null,"reasoning_content":"{}"`), "", "{}"},
		{"reasoning without a content", message(`"content":"","reasoning":"` + long + `"`), "", long},
		{"both", message(`"content":"Hi.","reasoning_content":"Hm."`), "Hi.", "Hm."},
		{"none", message(`"content":"Hi.","reasoning":null`), "Hi.", ""},
		{"a tool call", message(`"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"reply","arguments":"{}"}}]`), "{}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, Config{}, []http.HandlerFunc{tt.reply}, func(t *testing.T, c *Client, _ *fake) {
				if got, err := ask(t.Context(), c); err != nil || got.Text != tt.text || got.Thoughts != tt.thoughts {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

func TestRepeatedRefusalsEndTheCall(t *testing.T) {
	t.Parallel()
	simulate(t, Config{}, []http.HandlerFunc{status(400, `{"error":{"message":"response_format and temperature are not understood"}}`)},
		func(t *testing.T, c *Client, f *fake) {
			_, err := c.Complete(t.Context(), chat.Prompt{Schema: json.RawMessage(`{}`), Messages: []chat.Message{{Speaker: chat.User, Text: "?"}}})
			if got := len(f.seen()); verdict(err) != "refused" || got != 3 {
				t.Errorf("got %v after %d requests, want a refusal after 3", err, got)
			}
		})
}

func TestUnencodableRequestIsNotRetried(t *testing.T) {
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

func TestMessagesOnTheWire(t *testing.T) {
	t.Parallel()
	call := func(arguments string) chat.Message {
		return chat.Message{Speaker: chat.Assistant, Calls: []chat.Call{{ID: "c1", Tool: "ls", Arguments: arguments}}}
	}
	called := func(arguments string) string {
		return `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":` + arguments + `}}]}`
	}
	speaking := call(`{"dir":"."}`)
	speaking.Text = "Let me see."
	speaking.Calls = append(speaking.Calls, chat.Call{ID: "c2", Tool: "pwd", Arguments: "{}"})
	for _, tt := range []struct {
		name    string
		message chat.Message
		want    string
	}{
		{"a call without a word has a content that is null", call(`{"dir":"."}`), called(`"{\"dir\":\".\"}"`)},
		{
			"calls with a word have both", speaking,
			`{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"dir\":\".\"}"}},` +
				`{"id":"c2","type":"function","function":{"name":"pwd","arguments":"{}"}}]}`,
		},
		{"no arguments are an empty object", call(" \n"), called(`"{}"`)},
		{"arguments that are cut are wrapped", call(`{"dir":`), called(`"{\"arguments\":\"{\\\"dir\\\":\"}"`)},
		{"arguments that are no object are wrapped", call(`["."]`), called(`"{\"arguments\":\"[\\\".\\\"]\"}"`)},
		{"a result names its call", chat.Message{Speaker: chat.Tool, Text: "a.go", CallID: "c1"}, `{"role":"tool","content":"a.go","tool_call_id":"c1"}`},
		{"a result that is empty has a content all the same", chat.Message{Speaker: chat.Tool, CallID: "c1"}, `{"role":"tool","content":"","tool_call_id":"c1"}`},
		{"so has an empty question", chat.Message{Speaker: chat.User}, `{"role":"user","content":""}`},
		{"bytes that are no UTF-8 are replaced", chat.Message{Speaker: chat.Tool, Text: "a\xff\x00b", CallID: "c1"}, `{"role":"tool","content":"a\ufffd\u0000b","tool_call_id":"c1"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A second request shows that the encoding does not change the input.
			replies := []http.HandlerFunc{status(503, ``), answer("Hi.")}
			simulate(t, Config{}, replies, func(t *testing.T, c *Client, f *fake) {
				if _, err := c.Complete(t.Context(), chat.Prompt{Messages: []chat.Message{tt.message}}); err != nil {
					t.Fatal(err)
				}
				for _, r := range f.seen() {
					if got := r.field(t, "messages"); got != "["+tt.want+"]" {
						t.Errorf("got  %s, want [%s]", got, tt.want)
					}
				}
			})
		})
	}
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{``, ` `, `{}`, `{"a":1}`, `{"a":`, `[1]`, `"x"`, `null`, "{\"a\":\"\xff\"}", `{} {}`, "\x00", "\v{}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		var v map[string]any
		if got := object(arguments); json.Unmarshal([]byte(got), &v) != nil || v == nil {
			t.Errorf("got %q of %q, want an object", got, arguments)
		}
	})
}

func TestTokenRateLimit(t *testing.T) {
	t.Parallel()
	bare := chat.Prompt{Messages: []chat.Message{{Speaker: chat.User, Text: "Hello?"}}}
	calling := chat.Prompt{Schema: json.RawMessage(strings.Repeat("x", 340)), Messages: []chat.Message{
		bare.Messages[0],
		{Speaker: chat.Assistant, Calls: []chat.Call{{ID: "c1", Tool: "ls", Arguments: strings.Repeat("x", 3400)}}},
		{Speaker: chat.Tool, Text: strings.Repeat("x", 340), CallID: "c1"},
	}}
	if more := calling.Tokens() - bare.Tokens(); more < 1400 || more > 1500 { // of 4080 letters without a word in them
		t.Errorf("got %d tokens more, want some 1450", more)
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

func TestCachedTokens(t *testing.T) {
	t.Parallel()
	const reply = `{"model":"test-model-1","choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":%d}}}`
	for reported, want := range map[int]int{8: 8, 0: 0, -1: 0, 11: 10} {
		simulate(t, Config{}, []http.HandlerFunc{status(200, fmt.Sprintf(reply, reported))}, func(t *testing.T, c *Client, _ *fake) {
			got, err := ask(t.Context(), c)
			if err != nil || got.Usage.CachedTokens != want || got.Usage.InputTokens != 10 {
				t.Errorf("%d cached tokens reported: got %+v, %v, want %d", reported, got.Usage, err, want)
			}
		})
	}
}

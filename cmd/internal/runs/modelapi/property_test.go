package modelapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// style is how a client writes a conversation: choices that do not change it.
type style struct {
	t *rapid.T
}

func (s style) coin(label string) bool { return rapid.Bool().Draw(s.t, label) }

// object returns a JSON object of keys and values in turn, in random order and with random spaces.
func (s style) object(pairs ...string) string {
	var members []string
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, s.space()+quoted(pairs[i])+s.space()+":"+s.space()+pairs[i+1])
	}
	members = rapid.Permutation(members).Draw(s.t, "order")
	return "{" + join(members) + s.space() + "}"
}

func (s style) list(elements ...string) string {
	for i := range elements {
		elements[i] = s.space() + elements[i]
	}
	return "[" + join(elements) + s.space() + "]"
}

func (s style) space() string {
	return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(s.t, "space")
}

func join(parts []string) string {
	var b bytes.Buffer
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(part)
	}
	return b.String()
}

// quoted returns a JSON string.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// content returns a text as a string or as a list with one part, which may have a cache marker.
func (s style) content(text, partType string) string {
	if s.coin("string") {
		return quoted(text)
	}
	part := []string{"type", quoted(partType), "text", quoted(text)}
	if s.coin("marker") {
		part = append(part, "cache_control", `{"type":"ephemeral"}`)
	}
	return s.list(s.object(part...))
}

// body returns the body of a request with a system prompt and items.
func (s style) body(api API, system string, items []Item) string {
	switch api {
	case Responses:
		var input []string
		for _, item := range items {
			input = append(input, s.responsesItems(item)...)
		}
		return s.object("instructions", quoted(system), "input", s.list(input...), "model", `"m"`)
	case Messages:
		var messages []string
		for _, item := range items {
			messages = append(messages, s.messagesItem(item))
		}
		return s.object("system", s.content(system, "text"), "messages", s.list(messages...), "max_tokens", "9")
	default:
		messages := []string{s.object("role", `"system"`, "content", s.content(system, "text"))}
		for _, item := range items {
			messages = append(messages, s.chatItems(item)...)
		}
		return s.object("messages", s.list(messages...), "stream", "true")
	}
}

func (s style) chatItems(item Item) []string {
	var out []string
	for _, r := range item.Results {
		out = append(out, s.object("role", `"tool"`, "tool_call_id", quoted(r.CallID), "content", s.content(r.Output, "text")))
	}
	if item.Role == RoleTool {
		return out
	}
	message := []string{"role", quoted(string(item.Role)), "content", s.content(item.Text, "text")}
	var calls []string
	for _, call := range item.Calls {
		calls = append(calls, s.object("id", quoted(call.ID), "type", `"function"`,
			"function", s.object("name", quoted(call.Name), "arguments", quoted(call.Arguments))))
	}
	if len(calls) > 0 {
		message = append(message, "tool_calls", s.list(calls...))
	}
	return append(out, s.object(message...))
}

func (s style) responsesItems(item Item) []string {
	var out []string
	for _, r := range item.Results {
		out = append(out, s.object("type", `"function_call_output"`, "call_id", quoted(r.CallID), "output", s.content(r.Output, "input_text")))
	}
	if item.Role == RoleTool {
		return out
	}
	partType := "input_text"
	if item.Role == RoleAssistant {
		partType = "output_text"
		if s.coin("reasoning") {
			out = append(out, s.object("type", `"reasoning"`, "summary", "[]"))
		}
	}
	out = append(out, s.object("role", quoted(string(item.Role)), "content", s.content(item.Text, partType)))
	for _, call := range item.Calls {
		out = append(out, s.object("type", `"function_call"`, "call_id", quoted(call.ID), "name", quoted(call.Name), "arguments", quoted(call.Arguments)))
	}
	return out
}

func (s style) messagesItem(item Item) string {
	if item.Role == RoleUser {
		return s.object("role", `"user"`, "content", s.content(item.Text, "text"))
	}
	role, parts := "assistant", []string{}
	if item.Text != "" {
		parts = append(parts, s.object("type", `"text"`, "text", quoted(item.Text)))
	}
	for _, call := range item.Calls {
		parts = append(parts, s.object("type", `"tool_use"`, "id", quoted(call.ID), "name", quoted(call.Name), "input", call.Arguments))
	}
	for _, r := range item.Results {
		role = "user"
		parts = append(parts, s.object("type", `"tool_result"`, "tool_use_id", quoted(r.CallID), "content", s.content(r.Output, "text")))
	}
	return s.object("role", quoted(role), "content", s.list(parts...))
}

// drawItems returns a conversation of turns with tool loops.
func drawItems(t *rapid.T) []Item {
	text := rapid.Map(rapid.StringN(0, 12, -1), func(s string) string { return "t" + s }) // a blank text is none
	var items []Item
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		items = append(items, Item{Role: RoleUser, Text: text.Draw(t, "question")})
		for loop := range rapid.IntRange(0, 2).Draw(t, "loops") {
			call, result := Item{Role: RoleAssistant, Text: text.Draw(t, "thought")}, Item{Role: RoleTool}
			for i := range rapid.IntRange(1, 3).Draw(t, "calls") {
				id := fmt.Sprintf("%d-%d-%d", len(items), loop, i)
				call.Calls = append(call.Calls, ToolCall{ID: id, Name: "f", Arguments: `{"a":[1,"b"]}`})
				result.Results = append(result.Results, ToolResult{CallID: id, Output: text.Draw(t, "output")})
			}
			items = append(items, call, result)
		}
		if rapid.Bool().Draw(t, "answered") {
			items = append(items, Item{Role: RoleAssistant, Text: text.Draw(t, "answer")})
		}
	}
	return items
}

// A conversation has the same items however a client writes it, and insertion changes only what it should.
func TestStyleOfClientsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		items := drawItems(rt)
		api := rapid.SampledFrom([]API{Chat, Responses, Messages}).Draw(rt, "api")
		first := parse(t, api, style{rt}.body(api, "be brief", items))
		if diff := cmp.Diff(items, first.Items, ignored); diff != "" || first.System != "be brief" {
			rt.Fatalf("items (-want +got):\n%s\nsystem: %q", diff, first.System)
		}
		body := style{rt}.body(api, "be brief", items)
		second := parse(t, api, body)
		if diff := cmp.Diff(first.Items, second.Items, cmpopts.IgnoreFields(Item{}, "Invalid")); diff != "" {
			rt.Fatalf("items in two styles (-first +second):\n%s", diff)
		}
		checkInsert(t, api, []byte(body))
	})
}

// The block of a turn is inserted again at the same bytes when the client appends to the conversation.
func TestInsertionKeepsTheCachedPrefix(t *testing.T) {
	t.Parallel()
	const start, end = `{"model":"m","messages":[{"role":"user","content":"a"}`, `],"stream":true}`
	more := []string{`,{"role":"assistant","content":"b"}`, `,{"role":"user","content":[{"type":"text","text":"c"}]}`, `,{"role":"assistant","content":"d"}`}
	body := start
	var last []byte
	for i := range len(more) + 1 {
		texts := map[int]string{0: "first block"}
		if i >= 2 {
			texts[2] = "second block"
		}
		out, err := parse(t, Chat, body+end).Insert(texts, "")
		if err != nil {
			t.Fatal(err)
		}
		out = bytes.TrimSuffix(out, []byte(end))
		if !bytes.HasPrefix(out, last) {
			t.Errorf("call %d: got %s, want an extension of %s", i, out, last)
		}
		if last = out; i < len(more) {
			body += more[i]
		}
	}
}

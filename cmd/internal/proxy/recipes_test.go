package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/simulated"
	"debrief/events"
)

const (
	recipeQuestion = "Which berth is free for the Heron?"
	recipeBullet   = "Ask for the length of the ship before you look for a berth."
	recipeResult   = "Berth 4 is free."
	recipeAnswer   = "The Heron can have berth 4."
	recipeSchema   = `{"type":"object","properties":{"ship":{"type":"string"}},"required":["ship"],"additionalProperties":false}`
	chatTools      = `[{"type":"function","function":{"name":"find_berth","description":"Find a free berth.","parameters":` + recipeSchema + `}}]`
	responsesTools = `[{"type":"function","name":"find_berth","description":"Find a free berth.","parameters":` + recipeSchema + `,"strict":true}]`
	messagesTools  = `[{"name":"find_berth","description":"Find a free berth.","input_schema":` + recipeSchema + `}]`
)

// recipe is the first request of a conversation in the documented form of a framework. Q is the question.
type recipe struct {
	section string // of RECIPES.md
	path    string
	body    string
	headers []string
}

var recipes = []recipe{
	{"OpenAI SDKs", "/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"system","content":"You are a clerk."},{"role":"user","content":"Q"}],"tools":` + chatTools + `}`, nil},
	{"OpenAI SDKs", "/v1/responses", `{"model":"gpt-5","input":"Q","tools":` + responsesTools + `}`, []string{"X-Debrief-Session", "sdk"}},
	{"Anthropic SDKs", "/anthropic/v1/messages", `{"model":"claude-x","max_tokens":1024,"system":"You are a clerk.","messages":[{"role":"user","content":"Q"}],"tools":` + messagesTools + `}`, nil},
	{"OpenAI Agents SDK", "/v1/responses", `{"model":"gpt-5","instructions":"You are a clerk.","input":[{"content":"Q","role":"user"}],"include":[],"tools":` + responsesTools + `}`, nil},
	{"LangGraph", "/v1/chat/completions", `{"messages":[{"content":"You are a clerk.","role":"system"},{"content":"Q","role":"user"}],"model":"gpt-5","stream":false,"tools":` + chatTools + `}`, nil},
	{"CrewAI", "/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"system","content":"You are Clerk. Harbour office.\nYour goal: find berths"},{"role":"user","content":"\nCurrent task: Q\n\nExpected: the number of a berth.\n\nBegin."}],"stop":["\nObservation:"],"tools":` + chatTools + `}`, nil},
	{"Pydantic AI", "/v1/chat/completions", `{"messages":[{"role":"user","content":"Q"}],"model":"gpt-5","n":1,"stream":false,"tool_choice":"auto","tools":` + chatTools + `}`, nil},
	{"LlamaIndex", "/v1/chat/completions", `{"messages":[{"role":"system","content":"You are a clerk."},{"role":"user","content":"Q"}],"model":"gpt-5","stream":true,"stream_options":{"include_usage":true},"parallel_tool_calls":true,"tool_choice":"auto","tools":` + chatTools + `}`, nil},
	{"Vercel AI SDK", "/v1/responses", `{"model":"gpt-5","input":[{"role":"developer","content":"You are a clerk."},{"role":"user","content":[{"type":"input_text","text":"Q"}]}],"tool_choice":"auto","tools":` + responsesTools + `}`, nil},
	{"Vercel AI SDK", "/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"system","content":"You are a clerk."},{"role":"user","content":"Q"}],"tool_choice":"auto","tools":` + chatTools + `}`, nil},
	{"Google ADK", "/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"developer","content":"You are a clerk. Your name is clerk."},{"role":"user","content":[{"type":"text","text":"Q"}]}],"tools":` + chatTools + `}`, nil},
	{"LiteLLM and bifrost", "/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"user","content":"Q"}],"metadata":{},"extra_body":{},"tools":` + chatTools + `}`, []string{"X-Debrief-Session", "forwarded"}},
	{"LiteLLM and bifrost", "/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"user","content":"Q"}],"tools":` + chatTools + `,"tool_choice":"auto","stream":true,"stream_options":{"include_usage":true}}`, nil},
	{"OpenHands", "/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"system","content":[{"type":"text","text":"You are an engineer.","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"text","text":"Q"}]}],"temperature":0,"tools":` + chatTools + `}`, nil},
	{"Claude Code", "/anthropic/v1/messages", `{"model":"claude-x","max_tokens":32000,"stream":true,"metadata":{"user_id":"u"},"system":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>\nThe date is today.\n</system-reminder>"},{"type":"text","text":"Q","cache_control":{"type":"ephemeral"}}]}],"tools":` + messagesTools + `}`, []string{"Anthropic-Version", "2023-06-01", "Anthropic-Beta", "x-1"}},
	{"Codex", "/v1/responses", `{"model":"gpt-5","instructions":"You are an agent.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"Q"}]}],"store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"0199-aa","parallel_tool_calls":false,"tool_choice":"auto","tools":` + responsesTools + `}`, nil},
}

// These match the id of a tool call, and that of a response.
var (
	callIDs     = regexp.MustCompile(`(?:call|toolu)_[a-z0-9_]+`)
	responseIDs = regexp.MustCompile(`(?:chatcmpl-|resp_|msg_)[a-z0-9]+`)
)

// next returns the request after the tool call of a response, as a client sends it: with the call and its result.
func (r *recipe) next(t *testing.T, id string) []byte {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(r.first(), &body); err != nil {
		t.Fatal(err)
	}
	const arguments = `{"ship":"Heron"}`
	field, more := "messages", []any{
		map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "find_berth", "arguments": arguments}}}},
		map[string]any{"role": "tool", "tool_call_id": id, "content": recipeResult},
	}
	switch {
	case strings.HasSuffix(r.path, "/responses"):
		field, more = "input", []any{
			map[string]any{"type": "function_call", "call_id": id, "name": "find_berth", "arguments": arguments},
			map[string]any{"type": "function_call_output", "call_id": id, "output": recipeResult},
		}
		if text, ok := body["input"].(string); ok {
			body["input"] = []any{map[string]any{"role": "user", "content": text}}
		}
	case strings.HasSuffix(r.path, "/messages"):
		more = []any{
			map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_use", "id": id, "name": "find_berth", "input": json.RawMessage(arguments)}}},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": recipeResult}}},
		}
	}
	body[field] = append(body[field].([]any), more...)
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (r *recipe) first() []byte { return []byte(strings.Replace(r.body, "Q", recipeQuestion, 1)) }

// TestRecipes replays a conversation with a tool in the documented form of each framework of RECIPES.md. The provider gets the bullet once in
// each call, the client gets the answer, and one run with the call of the tool is stored.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for i, r := range recipes {
		t.Run(fmt.Sprint(i, " ", r.section), func(t *testing.T) {
			t.Parallel()
			h := openFront(t, "tail", func(r *simulated.Request) simulated.Answer {
				if len(r.Last().Results) > 0 {
					return simulated.Answer{Text: recipeAnswer}
				}
				return simulated.Answer{Calls: []simulated.Call{{Name: "find_berth", Arguments: `{"ship":"Heron"}`}}}
			}, recipeBullet)
			_, status, first := h.post(r.path, r.first(), r.headers...)
			id := string(callIDs.Find(first))
			if status != http.StatusOK || id == "" {
				t.Fatalf("got status %d: %s", status, first)
			}
			_, status, second := h.post(r.path, r.next(t, id), r.headers...)
			if status != http.StatusOK {
				t.Errorf("got status %d: %s", status, second)
			}
			if !strings.Contains(string(r.first()), `"stream":true`) && !strings.Contains(string(second), recipeAnswer) {
				t.Errorf("the client got %s", second)
			}
			for i, got := range h.received() {
				if n := strings.Count(string(got.Body), recipeBullet); n != 1 {
					t.Errorf("call %d: the provider got the bullet %d times: %s", i, n, got.Body)
				}
			}
			rating := fmt.Sprintf(`{"execution": %q, "outcome": true}`, responseIDs.Find(second))
			if _, status, reply := h.post("/api/v1/feedback", []byte(rating)); status != http.StatusCreated {
				t.Fatalf("feedback %s: got status %d: %s", rating, status, reply)
			}
			e := h.executions(1)[0]
			if !strings.Contains(e.Question, recipeQuestion) || e.Answer != recipeAnswer {
				t.Errorf("got the question %q and the answer %q", e.Question, e.Answer)
			}
			var calls []events.ToolCall
			for _, step := range e.Steps {
				calls = append(calls, step.Calls...)
			}
			if len(calls) != 1 || calls[0].Tool != "find_berth" || calls[0].Output != recipeResult {
				t.Errorf("got the calls %+v", calls)
			}
		})
	}
}

// TestRecipesAreThePage compares the sections of the page with the recipes that are replayed. Agents with hooks only have none.
func TestRecipesAreThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../gateway/RECIPES.md")
	if err != nil {
		t.Fatal(err)
	}
	replayed := map[string]bool{"Gemini CLI": false, "Cursor": false}
	for _, r := range recipes {
		replayed[r.section] = true
	}
	var sections []string
	for _, part := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		sections = append(sections, name)
		if says := strings.Contains(strings.ToLower(text), "replayed"); says != replayed[name] {
			t.Errorf("section %s: it says replayed: %t, and a recipe is replayed: %t", name, says, replayed[name])
		}
		delete(replayed, name)
	}
	if len(replayed) > 0 || slices.Contains(sections, "") {
		t.Errorf("the page has no section for %v", replayed)
	}
}

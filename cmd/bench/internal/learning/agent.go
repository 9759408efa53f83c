package learning

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"debrief/cmd/internal/simulated/wires"
	"debrief/cmd/internal/simulated/worlds/world"
)

// chatAgent is an agent with tools that uses chat completions with the official SDK. It knows the base URL of its provider, and
// nothing of a playbook.
type chatAgent struct {
	client openai.Client
	system string
	tools  []openai.ChatCompletionToolUnionParam
	calls  callCounter
}

// newChatAgent returns an agent for a base URL, with a system prompt.
func newChatAgent(url, system string, tools []string) *chatAgent {
	a := &chatAgent{system: system}
	a.client = openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("sk-bench"), option.WithHTTPClient(&http.Client{Transport: &a.calls}))
	for _, name := range tools {
		a.tools = append(a.tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: name, Parameters: map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
		}))
	}
	return a
}

// callCounter counts the calls of models, and those that passed the gateway without advice.
type callCounter struct{ all, degraded atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (c *callCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	c.all.Add(1)
	if err == nil && resp.Header.Get("X-Debrief-Degraded") != "" {
		c.degraded.Add(1)
	}
	return resp, err
}

// conversation is the history of a chat, as agents keep it.
type conversation struct {
	messages []openai.ChatCompletionMessageParamUnion
	id       string // of the last response
}

// agentPrompt begins the system prompt of the agent.
const agentPrompt = "You are the agent of an operations desk. Carry out the request of the user with the tools."

// send sends a message of the user and runs the tools that the model calls. It returns the answer.
func (a *chatAgent) send(ctx context.Context, c *conversation, text string, run func(tool, arguments string) (string, error)) (string, error) {
	if len(c.messages) == 0 {
		c.messages = append(c.messages, openai.SystemMessage(a.system))
	}
	c.messages = append(c.messages, openai.UserMessage(text))
	for {
		reply, err := a.client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "world", Messages: c.messages, Tools: a.tools})
		if err != nil {
			return "", err
		}
		if len(reply.Choices) == 0 {
			return "", errors.New("the response has no choice")
		}
		m := reply.Choices[0].Message
		c.messages = append(c.messages, m.ToParam())
		c.id = reply.ID
		if len(m.ToolCalls) == 0 {
			return m.Content, nil
		}
		for _, call := range m.ToolCalls {
			output, err := run(call.Function.Name, call.Function.Arguments)
			if err != nil {
				output = toolError + err.Error()
			}
			c.messages = append(c.messages, openai.ToolMessage(output, call.ID))
		}
	}
}

// toolError begins the result of a failed tool, as in OpenAI's Agents SDK. The chat API has no field for a failure.
const toolError = "An error occurred while running the tool. Please try again. Error: "

// adviceTag begins the advice that the gateway adds at the end of the user's message.
const adviceTag = "<playbook>"

// modelProvider serves the model of a world like a provider of chat completions. It sees only the messages of each request.
func modelProvider(w world.Caller) http.Handler {
	return wires.New(func(r *wires.Request) wires.Answer {
		var system, question, advice string
		var done []world.Step
		for i := range r.Items {
			switch item := &r.Items[i]; item.Role {
			case "system":
				system = item.Text
			case "user":
				question, advice, _ = strings.Cut(item.Text, adviceTag)
				done = nil
			case "assistant":
				for _, c := range item.Calls {
					done = append(done, world.Step{Tool: c.Name, Arguments: plainArguments(c.Arguments)})
				}
			case "tool":
				if n := len(done); n > 0 {
					done[n-1].Output, done[n-1].Failed = strings.CutPrefix(item.Text, toolError)
				}
			}
		}
		turn := w.Next(strings.TrimSpace(question), system+"\n"+advice, done)
		a := wires.Answer{Text: turn.Text}
		if turn.Call != nil {
			a.Calls = []wires.Call{{Name: turn.Call.Tool, Arguments: jsonArguments(turn.Call.Arguments)}}
		}
		return a
	})
}

// jsonArguments returns the arguments of a call, such as "service=merlin mode=canary", as a JSON object.
func jsonArguments(plain string) string {
	var fields []string
	for _, field := range strings.Fields(plain) {
		name, value, _ := strings.Cut(field, "=")
		fields = append(fields, fmt.Sprintf("%q: %q", name, value))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// plainArguments is the inverse of jsonArguments. It keeps the order.
func plainArguments(object string) string {
	var words []string
	d := json.NewDecoder(bytes.NewReader([]byte(object)))
	for {
		token, err := d.Token()
		if err != nil {
			break
		}
		if word, ok := token.(string); ok {
			words = append(words, word)
		}
	}
	var fields []string
	for i := 0; i+1 < len(words); i += 2 {
		fields = append(fields, words[i]+"="+words[i+1])
	}
	return strings.Join(fields, " ")
}

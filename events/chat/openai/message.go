package openai

import (
	"bytes"
	"encoding/json"

	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

// message is a message on the wire. go-openai omits an empty content, which servers refuse: DeepSeek and LiteLLM for
// every message, all servers for tool messages. OpenAI refuses null in messages without tool calls, and Bedrock
// refuses an empty text in messages with tool calls. Therefore content is null for tool calls without text, and a
// string otherwise.
type message struct {
	Speaker string      `json:"role"`
	Text    *string     `json:"content"`
	Calls   []chat.Call `json:"tool_calls,omitempty"`
	CallID  string      `json:"tool_call_id,omitempty"`
}

// wireRequest encodes a request with these messages.
func wireRequest(req openai.ChatCompletionRequest, messages []chat.Message) ([]byte, error) {
	body := struct {
		openai.ChatCompletionRequest
		Messages    []message `json:"messages"`
		Temperature *float32  `json:"temperature,omitempty"` // nil if the model refuses a temperature, which is 0 in the request
	}{ChatCompletionRequest: req, Messages: make([]message, len(messages))}
	switch t := req.Temperature; t {
	case 0:
	case temperatureZero: // the caller wants 0
		body.Temperature = new(float32)
	default:
		body.Temperature = &t
	}
	for i := range messages {
		m := &messages[i]
		out := message{Speaker: m.Speaker, Text: &m.Text, CallID: m.CallID}
		if m.Text == "" && len(m.Calls) > 0 {
			out.Text = nil
		}
		for _, c := range m.Calls {
			c.Arguments = object(c.Arguments)
			out.Calls = append(out.Calls, c)
		}
		body.Messages[i] = out
	}
	return json.Marshal(body)
}

// object returns arguments as a JSON object. Servers whose templates parse the arguments (vLLM, SGLang, Ollama,
// llama.cpp) refuse the whole conversation because of one invalid or truncated call.
func object(arguments string) string {
	raw := bytes.TrimSpace([]byte(arguments))
	if len(raw) == 0 {
		return "{}"
	}
	if raw[0] == '{' && json.Valid(raw) {
		return string(raw) // without the spaces that Unicode knows and JSON does not
	}
	wrapped, _ := json.Marshal(map[string]string{"arguments": arguments}) // strings always encode
	return string(wrapped)
}

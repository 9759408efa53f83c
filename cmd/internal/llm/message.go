package llm

import (
	"bytes"
	"encoding/json"

	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

// message is a message as it goes out. go-openai leaves an empty content out, which servers refuse (DeepSeek's and
// LiteLLM's for any message, all for a tool's); a null is refused where nothing is called (OpenAI's own), and an empty
// text where something is (Bedrock's). So content is null where tools are called without a word, and a text otherwise.
type message struct {
	Speaker string      `json:"role"`
	Text    *string     `json:"content"`
	Calls   []chat.Call `json:"tool_calls,omitempty"`
	CallID  string      `json:"tool_call_id,omitempty"`
}

// wireRequest is the body of a request with these messages.
func wireRequest(req openai.ChatCompletionRequest, messages []chat.Message) ([]byte, error) {
	body := struct {
		openai.ChatCompletionRequest
		Messages []message `json:"messages"`
	}{req, make([]message, len(messages))}
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

// object is arguments as a JSON object. Servers whose templates take the arguments apart (vLLM, SGLang, Ollama,
// llama.cpp) refuse a whole conversation for one call in it that a model has botched or a limit has cut.
func object(arguments string) string {
	raw := bytes.TrimSpace([]byte(arguments))
	if len(raw) == 0 {
		return "{}"
	}
	if raw[0] == '{' && json.Valid(raw) {
		return arguments
	}
	wrapped, _ := json.Marshal(map[string]string{"arguments": arguments}) // strings always encode
	return string(wrapped)
}

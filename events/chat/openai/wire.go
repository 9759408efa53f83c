package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"

	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

// temperatureZero stands for temperature 0 until wireRequest encodes the request. go-openai omits 0, and the default of
// most servers is 1.
const temperatureZero float32 = math.SmallestNonzeroFloat32

// request builds the request for a prompt in the server's dialect, without the messages: see wireRequest.
func (c *Client) request(p chat.Prompt) openai.ChatCompletionRequest {
	req := openai.ChatCompletionRequest{
		Model:       c.cfg.Model,
		MaxTokens:   cmp.Or(p.MaxTokens, c.cfg.MaxTokens),
		Temperature: float32(c.cfg.Temperature),
	}
	if req.Temperature == 0 {
		req.Temperature = temperatureZero
	}
	if len(p.Schema) > 0 && !c.cfg.NoSchema && !c.dialect.lacks(responseFormat) {
		req.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
				Name: cmp.Or(p.Name, "reply"), Schema: p.Schema, Strict: true,
			},
		}
	}

	// go-openai refuses the fields max_tokens and temperature in requests to reasoning models, by the name of the model. Adapt them first.
	reasoning := openai.NewReasoningValidator()
	if c.dialect.lacks(maxTokens) || errors.Is(reasoning.Validate(req), openai.ErrReasoningModelMaxTokensDeprecated) {
		req.MaxTokens, req.MaxCompletionTokens = 0, req.MaxTokens
	}
	refusesTemperature := reasoning.Validate(req) != nil // with max_tokens replaced, it can refuse only the temperature
	if c.dialect.lacks(temperature) || refusesTemperature {
		req.Temperature = 0
	}
	return req
}

var errNoChoices = errors.New("no choices")

// send sends one request and reads its reply. The exchange records the response.
func (c *Client) send(ctx context.Context, req openai.ChatCompletionRequest, x *exchange) (chat.Reply, error) {
	resp, err := c.openai.CreateChatCompletion(ctx, req)
	if err != nil {
		return chat.Reply{}, err
	}
	if len(resp.Choices) == 0 {
		return chat.Reply{}, errNoChoices
	}
	choice := resp.Choices[0]
	text := choice.Message.Content
	for _, part := range choice.Message.MultiContent {
		text += part.Text
	}
	if text == "" && len(choice.Message.ToolCalls) > 0 { // some servers turn a schema into a tool
		text = choice.Message.ToolCalls[0].Function.Arguments
	}
	return chat.Reply{
		Text:     cmp.Or(text, choice.Message.Refusal),
		Thoughts: cmp.Or(choice.Message.ReasoningContent, reasoningText(x.body)),
		Model:    cmp.Or(resp.Model, req.Model),
		Finish:   string(choice.FinishReason),
		Usage:    c.usage(resp.Usage),
	}, nil
}

// reasoningText returns the thoughts in a response, under the name that go-openai does not read: newer versions of vLLM and proxies use it.
func reasoningText(body []byte) string {
	var resp struct {
		Choices []struct {
			Message struct {
				Reasoning json.RawMessage `json:"reasoning"`
			} `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(body, &resp) != nil || len(resp.Choices) == 0 {
		return ""
	}
	return unquote(resp.Choices[0].Message.Reasoning)
}

// usage returns the usage of one call. Tokens are 0 if the server does not report them.
func (s *server) usage(u openai.Usage) chat.Usage {
	in, out := max(u.PromptTokens, 0), max(u.CompletionTokens, 0)
	cached := 0
	if u.PromptTokensDetails != nil {
		cached = min(max(u.PromptTokensDetails.CachedTokens, 0), in)
	}
	return chat.Usage{Calls: 1, InputTokens: in, OutputTokens: out, Cost: s.cost(int64(in), int64(out)), CachedTokens: cached}
}

func (s *server) cost(in, out int64) float64 {
	return (float64(in)*s.cfg.InputPrice + float64(out)*s.cfg.OutputPrice) / 1e6
}

// newOpenAI returns go-openai's client with our transport.
func newOpenAI(cfg Config, base http.RoundTripper) *openai.Client {
	conf := openai.DefaultConfig(string(cfg.APIKey))
	conf.BaseURL = cfg.BaseURL
	conf.HTTPClient = newHTTPClient(base)
	return openai.NewClientWithConfig(conf)
}

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
		Temperature *float32  `json:"temperature,omitempty"` // nil sends none
	}{ChatCompletionRequest: req, Messages: make([]message, len(messages))}
	switch t := req.Temperature; t {
	case 0: // the model refuses a temperature, see request
	case temperatureZero:
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

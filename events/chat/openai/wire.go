package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"

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
		Stream:      c.cfg.Stream,
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
	if req.Stream && !c.dialect.lacks(streamOptions) {
		req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}

	// go-openai validates requests to reasoning models itself, so adapt them first.
	reasoning := openai.NewReasoningValidator()
	if c.dialect.lacks(maxTokens) || errors.Is(reasoning.Validate(req), openai.ErrReasoningModelMaxTokensDeprecated) {
		req.MaxTokens, req.MaxCompletionTokens = 0, req.MaxTokens
	}
	refusesTemperature := reasoning.Validate(req) != nil // the requests have nothing else that it refuses
	if c.dialect.lacks(temperature) || refusesTemperature {
		req.Temperature = 0
	}
	return req
}

var (
	errNoChoices = errors.New("no choices")
	errCutStream = errors.New("the stream ended without a finish reason")
)

// send sends one request and reads its reply. The exchange records the response.
func (c *Client) send(ctx context.Context, req openai.ChatCompletionRequest, x *exchange) (chat.Reply, error) {
	if req.Stream {
		return c.stream(ctx, req)
	}
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

// reasoningText returns the thoughts in a response, or in a chunk of one, under the name that go-openai does not read: newer versions of
// vLLM and proxies use it.
func reasoningText(body []byte) string {
	type message struct {
		Reasoning json.RawMessage `json:"reasoning"`
	}
	var resp struct {
		Choices []struct {
			Index   int     `json:"index"`
			Message message `json:"message"`
			Delta   message `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(body, &resp) != nil {
		return ""
	}
	for _, choice := range resp.Choices {
		if choice.Index == 0 {
			return cmp.Or(unquote(choice.Message.Reasoning), unquote(choice.Delta.Reasoning))
		}
	}
	return ""
}

// stream is send for streaming replies. A cut connection ends like a complete one, so only a finish reason counts as
// the end.
func (c *Client) stream(ctx context.Context, req openai.ChatCompletionRequest) (chat.Reply, error) {
	stream, err := c.openai.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return chat.Reply{}, err
	}
	defer func() { _ = stream.Close() }()

	reply := chat.Reply{Model: req.Model, Usage: c.usage(openai.Usage{})}
	var text, arguments, refusal, thoughts strings.Builder
	for {
		var chunk openai.ChatCompletionStreamResponse
		raw, err := stream.RecvRaw()
		if err == nil {
			err = json.Unmarshal(raw, &chunk)
		}
		if err != nil {
			reply.Text, reply.Thoughts = cmp.Or(text.String(), arguments.String(), refusal.String()), thoughts.String()
			switch {
			case reply.Finish != "": // only the usage may be missing
				return reply, nil
			case errors.Is(err, io.EOF):
				return chat.Reply{}, errCutStream
			}
			return chat.Reply{}, err
		}
		reply.Model = cmp.Or(chunk.Model, reply.Model)
		if chunk.Usage != nil {
			reply.Usage = c.usage(*chunk.Usage)
		}
		for _, choice := range chunk.Choices {
			if choice.Index == 0 {
				text.WriteString(choice.Delta.Content)
				refusal.WriteString(choice.Delta.Refusal)
				thoughts.WriteString(cmp.Or(choice.Delta.ReasoningContent, reasoningText(raw)))
				for i, call := range choice.Delta.ToolCalls {
					isFirst := call.Index == nil && i == 0 || call.Index != nil && *call.Index == 0
					if isFirst {
						arguments.WriteString(call.Function.Arguments)
					}
				}
				reply.Finish = cmp.Or(string(choice.FinishReason), reply.Finish)
			}
		}
	}
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
	conf.EmptyMessagesLimit = 1 << 20 // proxies send comments to keep slow streams alive; exchange.maxBody limits them
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

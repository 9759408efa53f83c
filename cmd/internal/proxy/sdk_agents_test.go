package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// sdkAgent is a conversation over an official SDK. It keeps the history, as agents do.
type sdkAgent interface {
	User(text string, images int)
	Results(outputs ...string) // of the calls of the last turn, in order
	Send(ctx context.Context, stream bool) (sdkTurn, error)
}

// sdkTurn is the response of a model. Finish is stop, tools, length or refusal.
type sdkTurn struct {
	ID, Text, Refusal, Finish string
	Calls                     []string // name(arguments)
	Input, Cached             int64
}

// sdk creates agents with an SDK. The base URL of the gateway is the only setting that differs from the provider's.
type sdk struct {
	Name string // of the API
	Open func(url string, c *http.Client, retries int, schema bool) sdkAgent
}

var sdks = []sdk{{"chat", newChatAgent}, {"responses", newResponsesAgent}, {"messages", newMessagesAgent}}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

var schemaOfPerson = map[string]any{
	"type": "object", "additionalProperties": false, "required": []string{"name", "age"},
	"properties": map[string]any{"name": map[string]any{"type": "string"}, "age": map[string]any{"type": "integer"}},
}

var schemaOfTool = map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "string"}}}

func newOpenAI(url string, c *http.Client, retries int) openai.Client {
	return openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-test"), option.WithHTTPClient(c), option.WithMaxRetries(retries))
}

// apiError returns the status, the Retry-After header and the JSON of an API error, or 0.
func apiError(err error) (status int, after, body string) {
	var o *openai.Error
	var a *anthropic.Error
	switch {
	case errors.As(err, &o) && o.Response != nil:
		return o.StatusCode, o.Response.Header.Get("Retry-After"), o.RawJSON()
	case errors.As(err, &a) && a.Response != nil:
		return a.StatusCode, a.Response.Header.Get("Retry-After"), a.RawJSON()
	}
	return 0, "", ""
}

// chatAgent uses chat completions.
type chatAgent struct {
	client openai.Client
	params openai.ChatCompletionNewParams
	calls  []openai.ChatCompletionMessageToolCallUnion
}

func newChatAgent(url string, c *http.Client, retries int, schema bool) sdkAgent {
	a := &chatAgent{client: newOpenAI(url, c, retries)}
	a.params.Model = "gpt-test"
	a.params.Messages = append(a.params.Messages, openai.SystemMessage("You are a test."))
	a.params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "step", Parameters: schemaOfTool})}
	a.params.StreamOptions.IncludeUsage = param.NewOpt(true)
	if schema {
		a.params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "person", Schema: schemaOfPerson},
		}
	}
	return a
}

func (a *chatAgent) User(text string, images int) {
	if images == 0 {
		a.params.Messages = append(a.params.Messages, openai.UserMessage(text))
		return
	}
	parts := []openai.ChatCompletionContentPartUnionParam{openai.TextContentPart(text)}
	for range images {
		parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + pixel}))
	}
	a.params.Messages = append(a.params.Messages, openai.UserMessage(parts))
}

func (a *chatAgent) Results(outputs ...string) {
	for i, output := range outputs {
		a.params.Messages = append(a.params.Messages, openai.ToolMessage(output, a.calls[i].ID))
	}
}

func (a *chatAgent) Send(ctx context.Context, stream bool) (sdkTurn, error) {
	completion, err := a.complete(ctx, stream)
	if err != nil {
		return sdkTurn{}, err
	}
	message := completion.Choices[0].Message
	a.params.Messages = append(a.params.Messages, message.ToParam())
	a.calls = message.ToolCalls
	t := sdkTurn{
		ID: completion.ID, Text: message.Content, Refusal: message.Refusal, Finish: completion.Choices[0].FinishReason,
		Input: completion.Usage.PromptTokens, Cached: completion.Usage.PromptTokensDetails.CachedTokens,
	}
	for _, c := range a.calls {
		t.Calls = append(t.Calls, fmt.Sprintf("%s(%s)", c.Function.Name, c.Function.Arguments))
	}
	switch {
	case t.Refusal != "":
		t.Finish = "refusal"
	case t.Finish == "tool_calls":
		t.Finish = "tools"
	}
	return t, nil
}

func (a *chatAgent) complete(ctx context.Context, stream bool) (*openai.ChatCompletion, error) {
	if !stream {
		params := a.params
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
		return a.client.Chat.Completions.New(ctx, params)
	}
	s := a.client.Chat.Completions.NewStreaming(ctx, a.params)
	defer s.Close()
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			return nil, errors.New("a chunk does not belong to the reply of the chunks before")
		}
	}
	if s.Err() == nil && (len(acc.Choices) == 0 || acc.Choices[0].FinishReason == "") {
		return nil, errors.New("the stream has no end")
	}
	return &acc.ChatCompletion, s.Err()
}

// responsesAgent uses responses, and sends the whole history.
type responsesAgent struct {
	client openai.Client
	params responses.ResponseNewParams
	calls  []string // ids
}

func newResponsesAgent(url string, c *http.Client, retries int, schema bool) sdkAgent {
	a := &responsesAgent{client: newOpenAI(url, c, retries)}
	a.params.Model, a.params.Instructions = "gpt-test", param.NewOpt("You are a test.")
	a.params.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("step", schemaOfTool, false)}
	if schema {
		a.params.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("person", schemaOfPerson)
	}
	return a
}

func (a *responsesAgent) add(item responses.ResponseInputItemUnionParam) {
	a.params.Input.OfInputItemList = append(a.params.Input.OfInputItemList, item)
}

func (a *responsesAgent) User(text string, images int) {
	if images == 0 {
		a.add(responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser))
		return
	}
	parts := responses.ResponseInputMessageContentListParam{responses.ResponseInputContentParamOfInputText(text)}
	for range images {
		image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
		image.OfInputImage.ImageURL = param.NewOpt("data:image/png;base64," + pixel)
		parts = append(parts, image)
	}
	a.add(responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser))
}

func (a *responsesAgent) Results(outputs ...string) {
	for i, output := range outputs {
		item := responses.ResponseInputItemParamOfFunctionCallOutput(output)
		item.OfFunctionCallOutput.CallID = param.NewOpt(a.calls[i])
		a.add(item)
	}
}

func (a *responsesAgent) Send(ctx context.Context, stream bool) (sdkTurn, error) {
	res, err := a.respond(ctx, stream)
	if err != nil {
		return sdkTurn{}, err
	}
	t := sdkTurn{ID: res.ID, Text: res.OutputText(), Finish: "stop", Input: res.Usage.InputTokens, Cached: res.Usage.InputTokensDetails.CachedTokens}
	a.calls = nil
	for _, item := range res.Output {
		a.add(param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
		switch item.Type {
		case "function_call":
			t.Finish = "tools"
			a.calls = append(a.calls, item.CallID)
			t.Calls = append(t.Calls, fmt.Sprintf("%s(%s)", item.Name, item.Arguments.OfString))
		case "message":
			if refusal := item.Content[0].Refusal; refusal != "" {
				t.Refusal, t.Finish = refusal, "refusal"
			}
		}
	}
	if res.Status == responses.ResponseStatusIncomplete {
		t.Finish = "length"
	}
	return t, nil
}

func (a *responsesAgent) respond(ctx context.Context, stream bool) (*responses.Response, error) {
	if !stream {
		return a.client.Responses.New(ctx, a.params)
	}
	s := a.client.Responses.NewStreaming(ctx, a.params)
	defer s.Close()
	text, end := "", (*responses.Response)(nil)
	for s.Next() {
		switch e := s.Current(); e.Type {
		case "response.output_text.delta":
			text += e.Delta
		case "response.completed", "response.incomplete":
			end = &e.Response
		case "error":
			return nil, errors.New(e.Message)
		}
	}
	switch {
	case s.Err() != nil:
		return nil, s.Err()
	case end == nil:
		return nil, errors.New("the stream has no end")
	case end.OutputText() != text:
		return nil, fmt.Errorf("the pieces are %q, the response is %q", text, end.OutputText())
	}
	return end, nil
}

// messagesAgent uses messages of Anthropic.
type messagesAgent struct {
	client anthropic.Client
	params anthropic.MessageNewParams
	calls  []string // ids
}

func newMessagesAgent(url string, c *http.Client, retries int, schema bool) sdkAgent {
	a := &messagesAgent{client: newAnthropic(url, c, retries)}
	a.params.Model, a.params.MaxTokens = "claude-test", 1024
	a.params.System = []anthropic.TextBlockParam{{Text: "You are a test.", CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	a.params.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: schemaOfTool["properties"]}, "step")}
	if schema {
		a.params.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: schemaOfPerson}
	}
	return a
}

func newAnthropic(url string, c *http.Client, retries int) anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("sk-ant-test"),
		anthropicoption.WithHTTPClient(c), anthropicoption.WithMaxRetries(retries))
}

func (a *messagesAgent) User(text string, images int) {
	blocks := []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(text)}
	for range images {
		blocks = append(blocks, anthropic.NewImageBlockBase64("image/png", pixel))
	}
	a.params.Messages = append(a.params.Messages, anthropic.NewUserMessage(blocks...))
}

func (a *messagesAgent) Results(outputs ...string) {
	var blocks []anthropic.ContentBlockParamUnion
	for i, output := range outputs {
		blocks = append(blocks, anthropic.NewToolResultBlock(a.calls[i], output, output == "failed"))
	}
	a.params.Messages = append(a.params.Messages, anthropic.NewUserMessage(blocks...))
}

func (a *messagesAgent) Send(ctx context.Context, stream bool) (sdkTurn, error) {
	message, err := a.message(ctx, stream)
	if err != nil {
		return sdkTurn{}, err
	}
	a.params.Messages = append(a.params.Messages, message.ToParam())
	cached := message.Usage.CacheReadInputTokens
	t := sdkTurn{ID: message.ID, Finish: string(message.StopReason), Input: message.Usage.InputTokens + cached, Cached: cached}
	a.calls = nil
	for _, block := range message.Content {
		switch block.Type {
		case "text":
			t.Text += block.Text
		case "tool_use":
			a.calls = append(a.calls, block.ID)
			t.Calls = append(t.Calls, fmt.Sprintf("%s(%s)", block.Name, block.Input))
		}
	}
	switch t.Finish {
	case "end_turn":
		t.Finish = "stop"
	case "tool_use":
		t.Finish = "tools"
	case "max_tokens":
		t.Finish = "length"
	case "refusal":
		t.Text, t.Refusal = "", t.Text
	}
	return t, nil
}

func (a *messagesAgent) message(ctx context.Context, stream bool) (*anthropic.Message, error) {
	if !stream {
		return a.client.Messages.New(ctx, a.params)
	}
	s := a.client.Messages.NewStreaming(ctx, a.params)
	defer s.Close()
	var message anthropic.Message
	ended := false
	for s.Next() {
		e := s.Current()
		if err := message.Accumulate(e); err != nil {
			return nil, err
		}
		ended = ended || e.Type == "message_stop"
	}
	if s.Err() == nil && !ended {
		return nil, errors.New("the stream has no end")
	}
	return &message, s.Err()
}

package simulated

import (
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const (
	askForTool     = "Call `find_berth` {\"ship\": \"Heron\"} for me."
	askWithoutCall = "Which berth is free?"
)

var berthSchema = map[string]any{
	"type": "object", "required": []string{"ship", "length", "side"},
	"properties": map[string]any{
		"ship": map[string]any{"type": "string"}, "length": map[string]any{"type": "number"}, "side": map[string]any{"type": "string", "enum": []string{"port", "starboard"}},
	},
}

// TestResponsesClient runs a tool loop over the Responses API with the official client: the message names a tool, the model calls it, and
// answers to its result, which it finds by previous_response_id.
func TestResponsesClient(t *testing.T) {
	t.Parallel()
	_, url := startServer(t, Options{})
	c := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("none"), option.WithMaxRetries(0))
	params := responses.ResponseNewParams{
		Model: Name,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(askForTool)},
		Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("find_berth", berthSchema, false)},
	}
	first, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if first.Model != Name || len(first.Output) != 1 || first.Output[0].Name != "find_berth" || first.Output[0].Arguments.OfString != `{"ship": "Heron"}` {
		t.Fatalf("got %s, want the call of the message", first.RawJSON())
	}
	params.PreviousResponseID = openai.String(first.ID)
	result := responses.ResponseInputItemParamOfFunctionCallOutput("Berth 4 is free.")
	result.OfFunctionCallOutput.CallID = openai.String(first.Output[0].CallID)
	params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{result}}
	second, err := c.Responses.New(t.Context(), params)
	if err != nil || !strings.HasPrefix(second.OutputText(), "The tool answered: Berth 4 is free.\n") || !strings.Contains(second.OutputText(), "simulated") {
		t.Errorf("got %q, %v, want an answer with the result", second.OutputText(), err)
	}
	stream := c.Responses.NewStreaming(t.Context(), params)
	var text strings.Builder
	for stream.Next() {
		if e := stream.Current(); e.Type == "response.output_text.delta" {
			text.WriteString(e.Delta)
		}
	}
	if stream.Err() != nil || text.String() != second.OutputText() {
		t.Errorf("got the stream %q, %v, want %q", text.String(), stream.Err(), second.OutputText())
	}
}

// TestMessagesClient does the same with the official client of the Messages API.
func TestMessagesClient(t *testing.T) {
	t.Parallel()
	_, url := startServer(t, Options{})
	c := anthropic.NewClient(anthropicoption.WithBaseURL(strings.TrimSuffix(url, "/v1")), anthropicoption.WithAPIKey("none"), anthropicoption.WithMaxRetries(0))
	tool := anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: berthSchema["properties"], Required: berthSchema["required"].([]string)}, "find_berth")
	params := anthropic.MessageNewParams{
		Model: Name, MaxTokens: 1000, Tools: []anthropic.ToolUnionParam{tool},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(askForTool))},
	}
	first, err := c.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if first.Model != Name || first.StopReason != anthropic.StopReasonToolUse || len(first.Content) != 1 || string(first.Content[0].Input) != `{"ship":"Heron"}` {
		t.Fatalf("got %s, want the call of the message", first.RawJSON())
	}
	params.Messages = append(params.Messages, first.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(first.Content[0].ID, "Berth 4 is free.", false)))
	stream := c.Messages.NewStreaming(t.Context(), params)
	var second anthropic.Message
	for stream.Next() {
		if err := second.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil || len(second.Content) != 1 || !strings.HasPrefix(second.Content[0].Text, "The tool answered: Berth 4 is free.\n") {
		t.Errorf("got %s, %v, want an answer with the result", second.RawJSON(), stream.Err())
	}

	// A tool that the request forces is called with arguments that follow from its schema. Without force and without a name there is no call.
	params.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(askWithoutCall))}
	free, err := c.Messages.New(t.Context(), params)
	if err != nil || free.StopReason != anthropic.StopReasonEndTurn || !strings.Contains(free.Content[0].Text, "simulated") {
		t.Errorf("got %s, %v, want a text", free.RawJSON(), err)
	}
	params.ToolChoice = anthropic.ToolChoiceParamOfTool("find_berth")
	forced, err := c.Messages.New(t.Context(), params)
	if err != nil || len(forced.Content) != 1 || string(forced.Content[0].Input) != `{"length":1,"ship":"simulated","side":"port"}` {
		t.Errorf("got %s, %v, want a call with the required arguments", forced.RawJSON(), err)
	}
	count, err := c.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: Name, Messages: params.Messages})
	if err != nil || count.InputTokens == 0 {
		t.Errorf("got %d tokens, %v", count.InputTokens, err)
	}
}

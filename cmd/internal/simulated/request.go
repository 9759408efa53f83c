package simulated

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Request is a request to one of the model APIs.
type Request struct {
	Key    string // API key with its scheme
	Header http.Header
	Body   []byte
	Model  string
	Stream bool
	Schema bool   // the output must follow a JSON schema
	Items  []Item // system messages, stored items of earlier responses, and the items of this request

	SchemaName string // of Chat and Responses
	MaxTokens  int    // 0: unlimited
	Tools      []Tool
	Choice     Choice

	usage  bool   // the client wants usage at the end of a stream
	items  []part // messages or input items, as the client sent them
	prompt []byte // model, tools, system prompt and messages, in this order
}

// Tool is a tool of the client. Schema is the JSON schema of its arguments.
type Tool struct {
	Name   string
	Schema json.RawMessage
}

// Choice says whether the model must call a tool. With the zero value the model decides.
type Choice struct {
	None   bool   // it must call none
	Forced bool   // it must call one
	Name   string // of the only tool that it may call, then it is forced, too; "" permits all
}

// Item is a message, or an item of the Responses API.
type Item struct {
	Role    string // as on the wire; "tool" for an item with results
	Text    string
	Calls   []Call
	Results []Result
	Images  int
}

// Result is a tool result from the client.
type Result struct{ CallID, Output string }

// Last returns the last item, or an empty one.
func (r *Request) Last() Item {
	if len(r.Items) == 0 {
		return Item{}
	}
	return r.Items[len(r.Items)-1]
}

// part has the fields of messages, input items and content parts of all APIs. Of two fields for one thing one is empty.
type part struct {
	Type       string          `json:"type"`
	Role       string          `json:"role"`
	Text       string          `json:"text"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	Arguments  string          `json:"arguments"`
	Input      json.RawMessage `json:"input"`
	CallID     string          `json:"call_id"`
	ToolCallID string          `json:"tool_call_id"`
	ToolUseID  string          `json:"tool_use_id"`
	Output     json.RawMessage `json:"output"`
	ToolCalls  []struct {
		Function Call `json:"function"`
	} `json:"tool_calls"`

	raw []byte
}

// UnmarshalJSON implements json.Unmarshaler. It keeps the bytes in raw.
func (p *part) UnmarshalJSON(data []byte) error {
	type fields part
	if err := json.Unmarshal(data, (*fields)(p)); err != nil {
		return err
	}
	p.raw = append([]byte(nil), data...)
	return nil
}

// body has the fields of requests of all APIs.
type body struct {
	Model         string          `json:"model"`
	Stream        bool            `json:"stream"`
	Messages      []part          `json:"messages"`
	Input         json.RawMessage `json:"input"`
	Instructions  string          `json:"instructions"`
	System        json.RawMessage `json:"system"`
	PreviousID    string          `json:"previous_response_id"`
	MaxTokens     int             `json:"max_tokens"`
	MaxCompletion int             `json:"max_completion_tokens"`
	MaxOutput     int             `json:"max_output_tokens"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Input      json.RawMessage `json:"input_schema"`
		Function   struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ResponseFormat outputFormat `json:"response_format"`
	Text           struct {
		Format outputFormat `json:"format"`
	} `json:"text"`
	OutputConfig struct {
		Format outputFormat `json:"format"`
	} `json:"output_config"`
}

// outputFormat is the requested format of the output. Chat has the name of the schema in json_schema.
type outputFormat struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	JSONSchema struct {
		Name string `json:"name"`
	} `json:"json_schema"`
}

// choice decodes the tool choice: a word, or an object with a type and the name of a tool.
func (b *body) choice() (c Choice, err error) {
	var sent struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	raw := b.ToolChoice
	if len(raw) == 0 || string(raw) == "null" {
		return c, nil
	}
	if json.Unmarshal(raw, &sent.Type) != nil && json.Unmarshal(raw, &sent) != nil {
		return c, errors.New("tool_choice: must be a text or an object")
	}
	c.None = sent.Type == "none"
	c.Name = sent.Name + sent.Function.Name // one of them is empty
	c.Forced = sent.Type == "required" || sent.Type == "any" || c.Name != ""
	return c, nil
}

// tools returns the tools. Each API has the name and the schema of a tool in other fields.
func (b *body) tools() (all []Tool) {
	for _, t := range b.Tools {
		tool := Tool{Name: t.Name + t.Function.Name}
		for _, schema := range []json.RawMessage{t.Parameters, t.Input, t.Function.Parameters} {
			if len(schema) > 0 {
				tool.Schema = schema
			}
		}
		all = append(all, tool)
	}
	return all
}

// check requires the fields that providers require.
func (b *body) check(items []part) error {
	switch {
	case b.Model == "":
		return errors.New("model: required")
	case len(items) == 0:
		return errors.New("messages or input: required")
	}
	for i, p := range items {
		if len(p.Content) > 0 && p.Content[0] != '"' && p.Content[0] != '[' && string(p.Content) != "null" {
			return fmt.Errorf("messages[%d].content: must be a text or a list", i)
		}
	}
	return nil
}

// parse decodes and checks a request.
func (s *Provider) parse(api API, data []byte) (*Request, error) {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("parse body: %w", err)
	}
	toolChoice, err := b.choice()
	if err != nil {
		return nil, err
	}
	items := b.Messages
	if api == Responses {
		if items, err = s.inputItems(&b); err != nil {
			return nil, err
		}
	}
	if err := b.check(items); err != nil {
		return nil, err
	}
	r := &Request{
		Model: b.Model, Stream: b.Stream, MaxTokens: max(b.MaxTokens, b.MaxCompletion, b.MaxOutput), Tools: b.tools(), Choice: toolChoice,
		usage: b.StreamOptions.IncludeUsage, items: items,
	}
	for _, f := range []outputFormat{b.ResponseFormat, b.Text.Format, b.OutputConfig.Format} {
		r.Schema = r.Schema || f.Type == "json_schema"
		r.SchemaName = cmp.Or(r.SchemaName, f.JSONSchema.Name, f.Name)
	}
	system, _ := content(b.System)
	if system += b.Instructions; system != "" {
		r.Items = append(r.Items, Item{Role: "system", Text: system})
	}
	r.prompt = fmt.Appendf(nil, "%s\n%s\n%s\n", r.Model, r.Tools, system)
	for _, p := range items {
		r.Items = append(r.Items, p.item())
		r.prompt = append(append(r.prompt, p.raw...), '\n')
	}
	return r, nil
}

// inputItems returns the items of a request to the Responses API, after the stored items of the previous response.
func (s *Provider) inputItems(b *body) ([]part, error) {
	var items []part
	if b.PreviousID != "" {
		s.mu.Lock()
		stored, ok := s.stored[b.PreviousID]
		s.mu.Unlock()
		if !ok {
			return nil, fmt.Errorf("previous_response_id: %q not found", b.PreviousID)
		}
		items = append(items, stored...)
	}
	var text string
	if json.Unmarshal(b.Input, &text) == nil {
		return append(items, part{Role: "user", Content: b.Input, raw: b.Input}), nil
	}
	var given []part
	if err := json.Unmarshal(b.Input, &given); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return append(items, given...), nil
}

// item returns a message or an input item as an Item.
func (p part) item() Item {
	text, parts := content(p.Content)
	it := Item{Role: p.Role, Text: text}
	for _, c := range p.ToolCalls {
		it.Calls = append(it.Calls, c.Function)
	}
	if p.Type == "function_call" {
		it.Role, it.Calls = "assistant", []Call{{p.Name, p.Arguments}}
	}
	if p.Type == "function_call_output" {
		text, _ := content(p.Output)
		it.Role, it.Results = "tool", []Result{{p.CallID, text}}
	}
	if p.Role == "tool" {
		it.Results = []Result{{p.ToolCallID, it.Text}}
	}
	for _, c := range parts {
		switch c.Type {
		case "image", "image_url", "input_image":
			it.Images++
		case "tool_use":
			it.Calls = append(it.Calls, Call{c.Name, string(c.Input)})
		case "tool_result":
			text, _ := content(c.Content)
			it.Role, it.Results = "tool", append(it.Results, Result{c.ToolUseID, text})
		}
	}
	return it
}

// content returns the text and the parts of a content, which is a string or a list.
func content(raw json.RawMessage) (text string, parts []part) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	_ = json.Unmarshal(raw, &parts)
	for _, p := range parts {
		text += p.Text
	}
	return text, parts
}

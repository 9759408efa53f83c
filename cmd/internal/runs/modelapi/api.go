// Package modelapi reads the messages of model APIs: OpenAI chat completions and responses, Anthropic messages, and the
// shapes in which agents and observability tools record them. It reads requests, responses, streams and recorded
// conversations with one parser, and inserts text into requests without changing their other bytes. It makes no requests.
//
// The parts of the parser, from the bytes to the result:
//
//	value.go      a JSON text with the positions of its values
//	message.go    the parts, calls and results of one message or item in any dialect
//	output.go     the output of a tool, and its signs of failure
//	request.go    the items of a request
//	insert.go     the places in a request where text can be added
//	collector.go  a copy of a response, also of a stream
//	chat.go       the response of the chat completions API; responses.go and messages.go of the others
//	reply.go      the parts that the responses of all APIs have
//	find.go       the messages in a recorded value
package modelapi

import "debrief/events/outcome"

// API is a model API.
type API string

// The model APIs.
const (
	Chat      API = "chat"      // POST /v1/chat/completions
	Responses API = "responses" // POST /v1/responses
	Messages  API = "messages"  // POST /v1/messages
)

// Role is the author of an item of a conversation.
type Role string

// The roles. An item with tool results has the role RoleTool in every API, also if the API calls its role "user".
const (
	RoleSystem    Role = "system" // also "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Tool is the definition of a tool. One that the provider runs has no description.
type Tool struct{ Name, Description string }

// ToolCall is a call of a tool that a model requested.
type ToolCall struct {
	ID        string `msgpack:"i,omitempty"`
	Name      string `msgpack:"n"`
	Arguments string `msgpack:"a,omitempty"` // JSON, or the free text of a custom tool
	// Result is the result of a tool that the provider ran, in the same response; nil for a tool that the client runs.
	Result *ToolResult `msgpack:"r,omitempty"`
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	CallID string `msgpack:"i,omitempty"`
	Name   string `msgpack:"n,omitempty"` // of the tool; empty if the message does not name it
	Output string `msgpack:"o,omitempty"`
	// Signs are the marks of the message from which package outcome decides whether the call failed.
	Signs outcome.Signs `msgpack:"s,omitempty"`
}

// ClientCalls returns the calls that the client must answer: those without a result of the provider.
func ClientCalls(calls []ToolCall) (list []ToolCall) {
	for _, c := range calls {
		if c.Result == nil {
			list = append(list, c)
		}
	}
	return list
}

// Item is one message or item of a conversation.
type Item struct {
	Role    Role         `msgpack:"r"`
	Text    string       `msgpack:"t,omitempty"` // texts of all parts, separated by blank lines
	Calls   []ToolCall   `msgpack:"c,omitempty"`
	Results []ToolResult `msgpack:"o,omitempty"`
	// Invalid counts texts that begin like JSON and are not valid.
	Invalid int `msgpack:"-"`
}

// Usage is the token usage of one call.
type Usage struct {
	InputTokens  int `msgpack:"i,omitempty"`
	CachedTokens int `msgpack:"c,omitempty"` // the input tokens that the provider read from its cache; in every API a part of InputTokens
	OutputTokens int `msgpack:"o,omitempty"`
}

// Finish is the reason why a model stopped.
type Finish string

// The reasons.
const (
	FinishNone    Finish = "" // the end of the response is missing
	FinishStop    Finish = "stop"
	FinishTools   Finish = "tools"  // the client must call tools
	FinishLength  Finish = "length" // a token limit
	FinishRefusal Finish = "refusal"
	FinishFailed  Finish = "failed" // the response or the stream contains an error
)

// Reply is the response of a model.
type Reply struct {
	ID    string // "chatcmpl-…", "resp_…" or "msg_…"
	Model string
	Text  string
	Calls []ToolCall
	// Results are the results of calls that the provider ran and that an earlier response requested.
	Results []ToolResult
	Usage   Usage
	Finish  Finish
	// Error is the error in the response or stream, or the reason why the response is unreadable or incomplete; "" if there is none.
	Error string
}

// Complete reports whether the response has its end marker and no error.
func (r *Reply) Complete() bool { return r.Finish != FinishNone && r.Finish != FinishFailed }

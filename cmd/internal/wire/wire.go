// Package wire reads the model APIs of OpenAI (chat completions, responses) and Anthropic (messages): requests,
// responses and streams. It inserts text into requests without changing their other bytes. It makes no requests.
package wire

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

// ToolCall is a call of a tool that a model requested.
type ToolCall struct {
	ID        string `msgpack:"i,omitempty"`
	Name      string `msgpack:"n"`
	Arguments string `msgpack:"a,omitempty"` // JSON, or the free text of a custom tool
}

// ToolResult is the result of a tool call, as the client sent it to the model.
type ToolResult struct {
	CallID string `msgpack:"i,omitempty"`
	Output string `msgpack:"o,omitempty"`
	Failed bool   `msgpack:"f,omitempty"` // the client marked it as an error; only Messages has such a mark
}

// Hash is a hash of conversation items that ignores spaces and cache markers of JSON.
type Hash [16]byte

// Item is one message or item of a conversation.
type Item struct {
	Role    Role
	Text    string // texts of all parts, separated by blank lines
	Calls   []ToolCall
	Results []ToolResult
	// Prefix is the hash of the system prompt and of all items up to this one.
	Prefix Hash
}

// Usage is the token usage of one call. CachedTokens are the input tokens that the provider read from its cache. They are
// part of InputTokens in every API.
type Usage struct {
	InputTokens  int `msgpack:"i,omitempty"`
	CachedTokens int `msgpack:"c,omitempty"`
	OutputTokens int `msgpack:"o,omitempty"`
}

// Finish is the reason why a model stopped.
type Finish string

// The reasons. FinishNone is the reason of a response that has no end.
const (
	FinishNone    Finish = ""
	FinishStop    Finish = "stop"
	FinishTools   Finish = "tools"  // the client must call tools
	FinishLength  Finish = "length" // a token limit
	FinishRefusal Finish = "refusal"
	FinishFailed  Finish = "failed" // the response or the stream contains an error
)

// Reply is the response of a model.
type Reply struct {
	ID     string // "chatcmpl-…", "resp_…" or "msg_…"
	Model  string
	Text   string
	Calls  []ToolCall
	Usage  Usage
	Finish Finish
	// Error is the error in the response or stream, or why it could not be read.
	Error string
}

// Complete reports whether the response has its end marker and no error.
func (r *Reply) Complete() bool { return r.Finish != FinishNone && r.Finish != FinishFailed }

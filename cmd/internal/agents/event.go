package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"debrief/events"
	"debrief/events/outcome"
)

// Names of the agents, as in the command 'debrief hook AGENT'.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
	Gemini     = "gemini"
	Cursor     = "cursor"
)

// Names are the agents in the order of the help.
var Names = []string{ClaudeCode, Codex, Gemini, Cursor}

// kind is the meaning of an event.
type kind int

const (
	kindOther   kind = iota
	kindBegin        // a session begins, or its conversation was cleared or compacted
	kindPrompt       // the user sent a message
	kindToolUse      // a tool was used; only of agents without transcripts
	kindAnswer       // the agent wrote a message; only of agents without transcripts
	kindStop         // the agent has done the work of the message
	kindEnd          // the session ends
)

// kindOf has the meaning of the events that 'debrief connect' asks for, by their name. The names are those of
//   - Claude Code: code.claude.com/docs/en/hooks
//   - Codex: openai/codex, codex-rs/hooks/schema/generated; the names of Claude Code, and no SessionEnd
//   - Gemini CLI: google-gemini/gemini-cli, docs/hooks/reference.md
//   - Cursor: cursor.com/docs/agent/hooks, the names with a small letter
var kindOf = map[string]kind{
	"SessionStart": kindBegin, "UserPromptSubmit": kindPrompt, "Stop": kindStop, "SessionEnd": kindEnd,
	"BeforeAgent": kindPrompt, "AfterAgent": kindStop,
	"sessionStart": kindBegin, "beforeSubmitPrompt": kindPrompt, "postToolUse": kindToolUse, "postToolUseFailure": kindToolUse, "afterAgentResponse": kindAnswer, "stop": kindStop,
	"sessionEnd": kindEnd,
}

// event is one event of a coding agent, in the fields that all agents share.
type event struct {
	agent, name string
	kind        kind
	session     string
	transcript  string // file; "" if the agent has none
	dir         string
	fresh       bool // only for kindBegin: the model has none of the earlier advice; false if the session is resumed
	prompt      string
	answer      string
	call        *events.ToolCall
}

// input has the fields of the events of all agents.
type input struct {
	Name         string   `json:"hook_event_name"`
	Session      string   `json:"session_id"`
	Conversation string   `json:"conversation_id"` // Cursor
	Transcript   *string  `json:"transcript_path"`
	Dir          string   `json:"cwd"`
	Roots        []string `json:"workspace_roots"` // Cursor
	Version      string   `json:"cursor_version"`  // Cursor
	Subagent     string   `json:"agent_id"`        // Claude Code: the event is of a sub-agent
	Source       string   `json:"source"`          // startup, resume, clear or compact
	Prompt       string   `json:"prompt"`

	LastMessage string `json:"last_assistant_message"` // Claude Code, Codex
	Response    string `json:"prompt_response"`        // Gemini CLI
	Text        string `json:"text"`                   // Cursor

	Tool   string          `json:"tool_name"`
	Input  json.RawMessage `json:"tool_input"`
	Output json.RawMessage `json:"tool_output"`   // Cursor: a string, mostly with JSON in it
	Error  string          `json:"error_message"` // Cursor, postToolUseFailure
}

// parse reads an event. Fields of other types than documented are an error. An event that needs nothing has kindOther.
func parse(agent string, data []byte) (*event, error) {
	var in input
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	e := &event{
		agent: agent, name: in.Name, kind: kindOf[in.Name],
		session: events.FitName(cmp.Or(in.Session, in.Conversation)), dir: in.Dir,
		prompt: strings.TrimSpace(in.Prompt), answer: cmp.Or(in.LastMessage, in.Response, in.Text),
		fresh: in.Source != "resume",
	}
	if in.Transcript != nil && agent != Cursor { // no reader knows the transcripts of Cursor, and its command line has none
		e.transcript = *in.Transcript
	}
	if len(in.Roots) > 0 {
		e.dir = in.Roots[0]
	}
	isForeign := in.Version != "" && agent != Cursor // Cursor also runs the hooks of Claude Code
	if in.Subagent != "" || isForeign || e.session == "" {
		e.kind = kindOther
	}
	if e.kind == kindToolUse {
		e.call = callOf(&in)
	}
	return e, nil
}

// callOf returns the tool call of an event. Cursor sends another event for a call that failed, but maybe not for a command that ends with an
// exit code other than 0. So the outcome also depends on the output.
func callOf(in *input) *events.ToolCall {
	call := &events.ToolCall{Tool: in.Tool, Arguments: string(in.Input), Output: in.Error}
	failed := in.Name == "postToolUseFailure"
	if in.Error == "" && json.Unmarshal(in.Output, &call.Output) != nil {
		call.Output = string(in.Output)
	}
	call.Outcome = outcome.OfTool(call, call.Output, outcome.Signs{Error: &failed})
	return call
}

// ratingPattern matches a message with the user's verdict.
var ratingPattern = regexp.MustCompile(`(?is)^/?(?:prompts:)?debrief\s+(good|bad)\b[\s:,.]*(.*)$`)

// ratingOf returns the outcome of a message such as "/debrief bad the tests still fail", or false.
func ratingOf(prompt string) (events.Outcome, bool) {
	m := ratingPattern.FindStringSubmatch(prompt)
	if m == nil {
		return events.Outcome{}, false
	}
	label := events.Success
	if strings.EqualFold(m[1], "bad") {
		label = events.Failure
	}
	return events.Outcome{Label: label, Feedback: strings.TrimSpace(m[2])}.Complete(), true
}

// adviceOutput returns the output that adds a text to the conversation, in the form that the agent documents for the event. Cursor documents none
// for a message of the user: see mayAdvise.
func (e *event) adviceOutput(text string) []byte {
	if e.agent == Cursor {
		return object(map[string]any{"additional_context": text})
	}
	return object(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": e.name, "additionalContext": text}})
}

// refusalOutput returns the output that keeps a message of the user from the model, and shows a text to the user instead.
func (e *event) refusalOutput(text string) []byte {
	switch e.agent {
	case Cursor:
		return object(map[string]any{"continue": false, "user_message": text})
	case Gemini:
		return object(map[string]any{"decision": "deny", "reason": text})
	}
	return object(map[string]any{"decision": "block", "reason": text})
}

// mayAdvise reports whether the agent adds a text at this event. Advice for a message of the user of Cursor comes with the first tool call.
func (e *event) mayAdvise() bool {
	if e.agent == Cursor {
		return e.kind == kindBegin || e.kind == kindToolUse
	}
	return e.kind == kindBegin || e.kind == kindPrompt
}

// object encodes an output. Angle brackets stay readable.
func object(v map[string]any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // strings encode
		panic(err)
	}
	return []byte(b.String())
}

// Package messages converts recorded messages to the steps of a run: the messages of model APIs and agent frameworks, and
// actions in the text of an agent. It matches results to calls, and detects failed calls from their output.
package messages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"debrief/cmd/internal/traces/source"
	"debrief/events"
	"debrief/playbook/text"
)

// Message is a message of OpenAI's chat API, with the additional fields of SWE-agent's history.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`

	FunctionCall *function `json:"function_call"` // of an older API version

	ToolCallIDs []string        `json:"tool_call_ids"`
	Thought     json.RawMessage `json:"thought"`
	Action      json.RawMessage `json:"action"`
	IsDemo      bool            `json:"is_demo"`
}

// ToolCall is a tool call in a Message.
type ToolCall struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a string with JSON, or an object
}

// Conversation converts messages to the steps of an execution. The first message of a user is the question. Tool results
// are added to their calls. Every other turn of a user or an assistant is a step.
type Conversation struct {
	// Commands: the agent writes commands in its text, and the next user message is the output of the command.
	Commands bool
	// Greets: the agent speaks first, and the first user message after it is the question.
	Greets bool
	// Failed reports whether a tool's output is that of a failed call, for recorders that do not store it.
	Failed func(command, output string) bool

	Question string
	Answer   string // the text of the last assistant turn without a tool call
	Steps    []events.Step
	Open     []OpenCall       // calls of the last assistant turn that have no result yet
	Omitted  source.Omissions // nil if nothing was left out
}

// Omit counts content that is left out.
func (c *Conversation) Omit(kind source.Omission, n int) {
	if c.Omitted == nil {
		c.Omitted = source.Omissions{}
	}
	c.Omitted.Add(kind, n)
}

// OpenCall is a call that waits for its result.
type OpenCall struct {
	ID, command string
	Step, Call  int // indices into steps and its Calls
}

// Add adds the next message. Errors name the field of the message.
func (c *Conversation) Add(m *Message) error {
	content, err := JSONText("content", m.Content)
	if err != nil {
		return err
	}
	switch {
	case m.IsDemo:
		c.Omit(source.Demonstrations, 1)
		return nil
	case m.Role == "system", m.Role == "developer":
		c.Omit(source.SystemPrompts, 1)
		return nil
	case m.Role == "user":
		c.User(content)
		return nil
	case m.Role == "tool", m.Role == "function":
		c.addResult(m, content)
		return nil
	case m.Role == "assistant":
		return c.assistant(m, content)
	default:
		return fmt.Errorf("field role: got %q, want system, user, assistant or tool", m.Role)
	}
}

// User adds a message of the user: the question, the output of a command, or a step.
func (c *Conversation) User(content string) {
	switch {
	case c.Commands && len(c.Open) > 0:
		c.closeCall(0, content)
	case c.Question == "" && (len(c.Steps) == 0 || c.Greets):
		c.Question = content
	default:
		c.Steps = append(c.Steps, events.Step{Speaker: "user", Text: content})
	}
}

func (c *Conversation) assistant(m *Message, content string) error {
	thought, err := JSONText("thought", m.Thought)
	if err != nil {
		return err
	}
	action, err := JSONText("action", m.Action)
	if err != nil {
		return err
	}
	step := events.Step{Speaker: "assistant", Text: content}
	if strings.TrimSpace(thought) != "" {
		step.Text = thought // the content in SWE-agent's history is the thought followed by the action
	}
	c.Open = c.Open[:0]
	if m.FunctionCall != nil && len(m.ToolCalls) == 0 {
		m.ToolCalls = []ToolCall{{Function: *m.FunctionCall}}
	}
	for i := range m.ToolCalls {
		call, err := m.ToolCalls[i].Call()
		if err != nil {
			return fmt.Errorf("tool_calls[%d]: %w", i, err)
		}
		command := action
		if command == "" {
			command = commandLine(&call)
		}
		c.Open = append(c.Open, OpenCall{ID: m.ToolCalls[i].ID, command: command, Call: i, Step: len(c.Steps)})
		step.Calls = append(step.Calls, call)
	}
	if call, ok := ParseCommand(action); ok && len(step.Calls) == 0 {
		c.Open = append(c.Open, OpenCall{command: action, Step: len(c.Steps)})
		step.Calls = append(step.Calls, call)
	}
	if len(step.Calls) == 0 {
		c.Answer = step.Text
	}
	c.Steps = append(c.Steps, step)
	return nil
}

// addResult adds a result to its call. Ids are not unique in real recordings: tau-bench and the examples of SWE-agent repeat
// them. So only the calls of the last turn are searched, first by id, then in order.
func (c *Conversation) addResult(m *Message, content string) {
	id := m.ToolCallID
	if id == "" && len(m.ToolCallIDs) > 0 {
		id = m.ToolCallIDs[0]
	}
	for i := range c.Open {
		if c.Open[i].ID == id {
			c.closeCall(i, content)
			return
		}
	}
	if len(c.Open) == 0 {
		c.addUnknownCall(m.Name)
	}
	c.closeCall(0, content)
}

// addUnknownCall adds a call for a result whose call was not recorded, so that the result is not lost.
func (c *Conversation) addUnknownCall(tool string) {
	tool = cmp.Or(tool, "unknown")
	c.Steps = append(c.Steps, events.Step{Speaker: "assistant", Calls: []events.ToolCall{{Tool: tool, Outcome: events.Unknown}}})
	c.Open = append(c.Open, OpenCall{command: tool, Step: len(c.Steps) - 1})
}

// closeCall sets the output of the i-th open call.
func (c *Conversation) closeCall(i int, output string) {
	outcome := events.Success
	if c.Failed(c.Open[i].command, output) { // checked before the output is shortened: the error may be in the middle
		outcome = events.Failure
	}
	c.SetOutput(c.TakeCall(i), output, outcome)
}

// TakeCall removes the i-th call from the open calls and returns it.
func (c *Conversation) TakeCall(i int) *events.ToolCall {
	o := c.Open[i]
	c.Open = slices.Delete(c.Open, i, i+1)
	return &c.Steps[o.Step].Calls[o.Call]
}

// SetOutput sets the result of a call. A call without a result keeps the outcome Unknown.
func (c *Conversation) SetOutput(call *events.ToolCall, output string, outcome events.Label) {
	if n := len(output) - MaxOutput; n > 0 {
		c.Omit(source.CutOutput, n)
	}
	call.Outcome, call.Output = outcome, Clip(output)
}

// maxOpenCalls is the maximum number of calls that wait for a result. If there are more, the oldest ones get no result.
const maxOpenCalls = 1000

// AddTurn adds an assistant turn whose calls have ids that are unique in the conversation, so their results can follow at
// any time. If continued is true, the turn is added to the last step.
func (c *Conversation) AddTurn(continued bool, said events.Step, ids []string) {
	if continued = continued && len(c.Steps) > 0; !continued {
		c.Steps = append(c.Steps, events.Step{Speaker: "assistant", At: said.At})
	}
	at := len(c.Steps) - 1
	step := &c.Steps[at]
	if step.Text != "" && said.Text != "" {
		step.Text += "\n"
	}
	step.Text += said.Text
	for i, id := range ids {
		c.Open = append(c.Open, OpenCall{ID: id, Step: at, Call: len(step.Calls)})
		step.Calls = append(step.Calls, said.Calls[i])
	}
	if n := len(c.Open) - maxOpenCalls; n > 0 {
		c.Open = slices.Delete(c.Open, 0, n)
	}
	if len(step.Calls) == 0 && step.Text != "" {
		c.Answer = step.Text
	}
}

// AddResultByID adds a result to the open call with this id and returns the call.
func (c *Conversation) AddResultByID(id, tool, output string, outcome events.Label) *events.ToolCall {
	i := slices.IndexFunc(c.Open, func(o OpenCall) bool { return o.ID == id })
	if i < 0 {
		c.addUnknownCall(tool)
		i = len(c.Open) - 1
	}
	call := c.TakeCall(i)
	c.SetOutput(call, output, outcome)
	return call
}

// Run returns the conversation as a run.
func (c *Conversation) Run() (*Run, error) {
	if !slices.ContainsFunc(c.Steps, func(s events.Step) bool { return s.Speaker == "assistant" }) {
		return nil, errors.New("the run has no assistant turn")
	}
	e := &events.Execution{Question: c.Question, Steps: c.Steps, Answer: c.Answer, Outcome: events.Outcome{Label: events.Unknown}}
	return &Run{Execution: e, Omitted: c.Omitted}, nil
}

// Call returns the call without a result. Errors name the field of the call.
func (t *ToolCall) Call() (events.ToolCall, error) {
	if t.Function.Name == "" {
		return events.ToolCall{}, errors.New("field function.name: is missing")
	}
	arguments := string(t.Function.Arguments)
	if strings.HasPrefix(arguments, `"`) {
		if err := json.Unmarshal(t.Function.Arguments, &arguments); err != nil {
			return events.ToolCall{}, fmt.Errorf("field function.arguments: %w", err)
		}
	}
	return events.ToolCall{Tool: t.Function.Name, Arguments: arguments, Outcome: events.Unknown}, nil
}

// commandLine returns the shell command of a call of the tool bash, else the name of the tool.
func commandLine(call *events.ToolCall) string {
	var shell struct {
		Command string `json:"command"`
	}
	if call.Tool == "bash" && json.Unmarshal([]byte(call.Arguments), &shell) == nil && shell.Command != "" {
		return shell.Command
	}
	return call.Tool
}

// Each decodes a list of messages and calls each for every message. Errors name the field from the root of the run.
func Each(field string, list []*source.Object, each func(*Message) error) error {
	for i, o := range list {
		m, err := parseMessage(o)
		if err == nil {
			err = each(m)
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

// JSONText returns the text of a JSON string, of null, or of a list of parts such as {"type":"text","text":"…"}.
func JSONText(field string, raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == 'n' {
		return "", nil
	}
	if raw[0] == '"' {
		return source.String(raw)
	}
	s := ""
	var parts []struct {
		Text string `json:"text"`
	}
	if raw[0] != '[' || json.Unmarshal(raw, &parts) != nil {
		return "", fmt.Errorf("field %s: want a string or a list of parts", field)
	}
	for i, p := range parts {
		if i > 0 && p.Text != "" {
			s += "\n"
		}
		s += p.Text
	}
	return s, nil
}

// MaxOutput is the maximum size of a tool's output in bytes. From a longer one, the beginning and the end are kept.
const MaxOutput = 16 << 10

// Clip shortens a tool's output to about MaxOutput bytes, as ClipTo does.
func Clip(s string) string { return ClipTo(s, MaxOutput) }

// ClipTo shortens a text to about limit bytes, and says so in it. It keeps both ends, because errors can be at either end.
func ClipTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit / 4
	first := text.Prefix(s, limit-end)
	rest := s[len(first):]
	last := rest[len(rest)-end:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	return fmt.Sprintf("%s… [cut %d bytes] …%s", first, len(rest)-len(last), last)
}

// ToolFailed reports whether a tool's output looks like an error: by its first words, or as an object with an error.
func ToolFailed(_, output string) bool {
	return strings.HasPrefix(output, "Error") || strings.HasPrefix(output, "error:") || strings.HasPrefix(output, agentsError) || ReportsError(output)
}

// agentsError begins the result of a tool that raised an exception, in OpenAI's Agents SDK.
const agentsError = "An error occurred while running the tool."

// ReportsError reports whether a tool's output is a JSON object with an error.
func ReportsError(output string) bool {
	var report struct {
		Status string          `json:"status"`
		Error  json.RawMessage `json:"error"`
	}
	if !strings.HasPrefix(strings.TrimSpace(output), "{") || !mentionsError(output) || json.Unmarshal([]byte(output), &report) != nil {
		return false
	}
	switch string(report.Error) {
	case "", "null", "false", `""`, "{}", "[]":
		return report.Status == "error"
	}
	return true
}

// mentionsError reports whether a JSON text can contain the word "error". Most outputs do not, so that they are not decoded.
func mentionsError(output string) bool {
	return strings.Contains(output, "rror") || strings.Contains(output, "RROR") || strings.Contains(output, `\u`)
}

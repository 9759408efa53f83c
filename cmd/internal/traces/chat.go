package traces

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"debrief/events"
)

// message is a message of OpenAI's chat API, with the additional fields of SWE-agent's history.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCalls  []toolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`

	FunctionCall *function `json:"function_call"` // of an older API version

	ToolCallIDs []string        `json:"tool_call_ids"`
	Thought     json.RawMessage `json:"thought"`
	Action      json.RawMessage `json:"action"`
	IsDemo      bool            `json:"is_demo"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a string with JSON, or an object
}

// conversation converts messages to the steps of an execution. The first message of a user is the question. Tool results
// are added to their calls. Every other turn of a user or an assistant is a step.
type conversation struct {
	// commands: the agent writes commands in its text, and the next user message is the output of the command.
	commands bool
	// failed reports whether a tool's output is that of a failed call, for recorders that do not store it.
	failed func(command, output string) bool

	question string
	answer   string // the text of the last assistant turn without a tool call
	steps    []events.Step
	open     []openCall // calls of the last assistant turn that have no result yet
}

type openCall struct {
	id, command string
	step, call  int // indices into steps and its Calls
}

// add adds the next message. Errors name the field of the message.
func (c *conversation) add(m *message) error {
	content, err := jsonText("content", m.Content)
	if err != nil {
		return err
	}
	switch {
	case m.IsDemo, m.Role == "system", m.Role == "developer":
		return nil
	case m.Role == "user":
		c.user(content)
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

func (c *conversation) user(content string) {
	switch {
	case c.commands && len(c.open) > 0:
		c.closeCall(0, content)
	case c.question == "" && len(c.steps) == 0:
		c.question = content
	default:
		c.steps = append(c.steps, events.Step{Speaker: "user", Text: content})
	}
}

func (c *conversation) assistant(m *message, content string) error {
	thought, err := jsonText("thought", m.Thought)
	if err != nil {
		return err
	}
	action, err := jsonText("action", m.Action)
	if err != nil {
		return err
	}
	step := events.Step{Speaker: "assistant", Text: content}
	if strings.TrimSpace(thought) != "" {
		step.Text = thought // the content in SWE-agent's history is the thought followed by the action
	}
	c.open = c.open[:0]
	if m.FunctionCall != nil && len(m.ToolCalls) == 0 {
		m.ToolCalls = []toolCall{{Function: *m.FunctionCall}}
	}
	for i := range m.ToolCalls {
		call, err := m.ToolCalls[i].call()
		if err != nil {
			return fmt.Errorf("tool_calls[%d]: %w", i, err)
		}
		command := action
		if command == "" {
			command = commandLine(&call)
		}
		c.open = append(c.open, openCall{id: m.ToolCalls[i].ID, command: command, call: i, step: len(c.steps)})
		step.Calls = append(step.Calls, call)
	}
	if call, ok := command(action); ok && len(step.Calls) == 0 {
		c.open = append(c.open, openCall{command: action, step: len(c.steps)})
		step.Calls = append(step.Calls, call)
	}
	if len(step.Calls) == 0 {
		c.answer = step.Text
	}
	c.steps = append(c.steps, step)
	return nil
}

// addResult adds a result to its call. Ids are not unique in real recordings: tau-bench and the examples of SWE-agent repeat
// them. So only the calls of the last turn are searched, first by id, then in order.
func (c *conversation) addResult(m *message, content string) {
	id := m.ToolCallID
	if id == "" && len(m.ToolCallIDs) > 0 {
		id = m.ToolCallIDs[0]
	}
	for i := range c.open {
		if c.open[i].id == id {
			c.closeCall(i, content)
			return
		}
	}
	if len(c.open) == 0 {
		c.addUnknownCall(m.Name)
	}
	c.closeCall(0, content)
}

// addUnknownCall adds a call for a result whose call was not recorded, so that the result is not lost.
func (c *conversation) addUnknownCall(tool string) {
	tool = cmp.Or(tool, "unknown")
	c.steps = append(c.steps, events.Step{Speaker: "assistant", Calls: []events.ToolCall{{Tool: tool, Outcome: events.Unknown}}})
	c.open = append(c.open, openCall{command: tool, step: len(c.steps) - 1})
}

// closeCall sets the output of the i-th open call.
func (c *conversation) closeCall(i int, output string) {
	outcome := events.Success
	if c.failed(c.open[i].command, output) { // checked before the output is shortened: the error may be in the middle
		outcome = events.Failure
	}
	setOutput(c.takeCall(i), output, outcome)
}

// takeCall removes the i-th call from the open calls and returns it.
func (c *conversation) takeCall(i int) *events.ToolCall {
	o := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	return &c.steps[o.step].Calls[o.call]
}

// setOutput sets the result of a call. A call without a result keeps the outcome Unknown.
func setOutput(call *events.ToolCall, output string, outcome events.Label) {
	call.Outcome, call.Output = outcome, clip(output)
}

// maxOpenCalls is the maximum number of calls that wait for a result. If there are more, the oldest ones get no result.
const maxOpenCalls = 1000

// addTurn adds an assistant turn whose calls have ids that are unique in the conversation, so their results can follow at
// any time. If continued is true, the turn is added to the last step.
func (c *conversation) addTurn(continued bool, said events.Step, ids []string) {
	if continued = continued && len(c.steps) > 0; !continued {
		c.steps = append(c.steps, events.Step{Speaker: "assistant", At: said.At})
	}
	at := len(c.steps) - 1
	step := &c.steps[at]
	if step.Text != "" && said.Text != "" {
		step.Text += "\n"
	}
	step.Text += said.Text
	for i, id := range ids {
		c.open = append(c.open, openCall{id: id, step: at, call: len(step.Calls)})
		step.Calls = append(step.Calls, said.Calls[i])
	}
	if n := len(c.open) - maxOpenCalls; n > 0 {
		c.open = slices.Delete(c.open, 0, n)
	}
	if len(step.Calls) == 0 && step.Text != "" {
		c.answer = step.Text
	}
}

// addResultByID adds a result to the open call with this id and returns the call.
func (c *conversation) addResultByID(id, tool, output string, outcome events.Label) *events.ToolCall {
	i := slices.IndexFunc(c.open, func(o openCall) bool { return o.id == id })
	if i < 0 {
		c.addUnknownCall(tool)
		i = len(c.open) - 1
	}
	call := c.takeCall(i)
	setOutput(call, output, outcome)
	return call
}

// execution returns the conversation as a run.
func (c *conversation) execution() (*run, error) {
	if !slices.ContainsFunc(c.steps, func(s events.Step) bool { return s.Speaker == "assistant" }) {
		return nil, errors.New("the run has no assistant turn")
	}
	return &run{Execution: &events.Execution{Question: c.question, Steps: c.steps, Answer: c.answer, Outcome: events.Outcome{Label: events.Unknown}}}, nil
}

func (t *toolCall) call() (events.ToolCall, error) {
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
	if json.Unmarshal([]byte(call.Arguments), &shell) == nil && shell.Command != "" && call.Tool == "bash" {
		return shell.Command
	}
	return call.Tool
}

// command returns a shell command as a call; the tool is its first word. It returns false if the command is empty.
func command(action string) (events.ToolCall, bool) {
	action = strings.TrimSpace(action)
	tool, arguments := action, ""
	if end := strings.IndexAny(action, " \t\r\n"); end >= 0 {
		tool, arguments = action[:end], strings.TrimSpace(action[end:])
	}
	return events.ToolCall{Tool: tool, Arguments: arguments, Outcome: events.Unknown}, tool != ""
}

// messages decodes a list of messages and calls each for every message. Errors name the field from the root of the run.
func messages(field string, list []json.RawMessage, each func(*message) error) error {
	for i, raw := range list {
		var m message
		err := decode(raw, &m)
		if err == nil {
			err = each(&m)
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

// jsonText returns the text of a JSON string, of null, or of a list of parts such as {"type":"text","text":"…"}.
func jsonText(field string, raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == 'n' {
		return "", nil
	}
	var s string
	if raw[0] == '"' {
		return s, json.Unmarshal(raw, &s)
	}
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

// decode calls json.Unmarshal and returns errors that name the field.
func decode(raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return fmt.Errorf("got a JSON %s, want an object", wrong.Value)
		}
		return fmt.Errorf("field %s: got a JSON %s, want %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	return nil
}

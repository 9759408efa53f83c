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

// message is a turn as OpenAI's chat wire has it, with what SWE-agent's history adds.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCalls  []toolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`

	FunctionCall *function `json:"function_call"` // of an older wire

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
	Arguments json.RawMessage `json:"arguments"` // a string of JSON, or the object itself
}

// conversation turns messages into the steps of an execution: the first thing a user says is the question, tool results
// go with their calls, and every other turn of a user or an assistant is a step.
type conversation struct {
	// commands: the agent acts by commands in its text, and the user's next turn is what the command printed.
	commands bool
	// failed says whether a tool's output reports an error, for recorders that do not say it.
	failed func(command, output string) bool

	question string
	answer   string // the last thing the assistant said without calling a tool
	steps    []events.Step
	open     []openCall // calls of the last assistant turn that have no result yet
}

type openCall struct {
	id, command string
	step, call  int // where it is in steps
}

// add takes the next message. Errors name the field within it.
func (c *conversation) add(m *message) error {
	content, err := text("content", m.Content)
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
		c.result(m, content)
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
		c.close(0, content)
	case c.question == "" && len(c.steps) == 0:
		c.question = content
	default:
		c.steps = append(c.steps, events.Step{Speaker: "user", Text: content})
	}
}

func (c *conversation) assistant(m *message, content string) error {
	thought, err := text("thought", m.Thought)
	if err != nil {
		return err
	}
	action, err := text("action", m.Action)
	if err != nil {
		return err
	}
	step := events.Step{Speaker: "assistant", Text: content}
	if strings.TrimSpace(thought) != "" {
		step.Text = thought // SWE-agent's content repeats the action behind the thought
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

// result gives a call its result. Ids are not unique in real recordings (a tau-bench run repeats one up to several
// times, SWE-agent's own examples too), so only the calls of the last turn are looked at: first by id, then in order.
func (c *conversation) result(m *message, content string) {
	id := m.ToolCallID
	if id == "" && len(m.ToolCallIDs) > 0 {
		id = m.ToolCallIDs[0]
	}
	for i := range c.open {
		if c.open[i].id == id {
			c.close(i, content)
			return
		}
	}
	if len(c.open) == 0 {
		c.orphan(m.Name)
	}
	c.close(0, content)
}

// orphan makes a call for a result whose call was not recorded: it still says that a tool was used and what it answered.
func (c *conversation) orphan(tool string) {
	tool = cmp.Or(tool, "unknown")
	c.steps = append(c.steps, events.Step{Speaker: "assistant", Calls: []events.ToolCall{{Tool: tool, Outcome: events.Unknown}}})
	c.open = append(c.open, openCall{command: tool, step: len(c.steps) - 1})
}

// close gives the i-th open call its output.
func (c *conversation) close(i int, output string) {
	outcome := events.Success
	if c.failed(c.open[i].command, output) { // before the cut: what tells may be in the middle
		outcome = events.Failure
	}
	settle(c.take(i), output, outcome)
}

// take is the i-th open call, which is open no more.
func (c *conversation) take(i int) *events.ToolCall {
	o := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	return &c.steps[o.step].Calls[o.call]
}

// settle writes down what a call returned. A call that is never settled keeps the outcome Unknown.
func settle(call *events.ToolCall, output string, outcome events.Label) {
	call.Outcome, call.Output = outcome, clip(output)
}

// maxOpenCalls bounds the calls that wait for a result; the oldest ones get none.
const maxOpenCalls = 1000

// turn takes a turn of an assistant whose calls have ids that are unique in the conversation, so that results may come
// at any time. One that goes on with the turn before it is part of that step.
func (c *conversation) turn(on bool, said events.Step, ids []string) {
	if on = on && len(c.steps) > 0; !on {
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

// returned takes what the call with this id returned.
func (c *conversation) returned(id, tool, output string, outcome events.Label) *events.ToolCall {
	i := slices.IndexFunc(c.open, func(o openCall) bool { return o.id == id })
	if i < 0 {
		c.orphan(tool)
		i = len(c.open) - 1
	}
	call := c.take(i)
	settle(call, output, outcome)
	return call
}

// execution is the conversation as a run.
func (c *conversation) execution() (*run, error) {
	if !slices.ContainsFunc(c.steps, func(s events.Step) bool { return s.Speaker == "assistant" }) {
		return nil, errors.New("the run has no turn of an assistant")
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

// commandLine is what a function call made a shell do: its command where it has one, else its own name.
func commandLine(call *events.ToolCall) string {
	var shell struct {
		Command string `json:"command"`
	}
	if json.Unmarshal([]byte(call.Arguments), &shell) == nil && shell.Command != "" && call.Tool == "bash" {
		return shell.Command
	}
	return call.Tool
}

// command is a shell command as a call: the tool is its first word.
func command(action string) (events.ToolCall, bool) {
	action = strings.TrimSpace(action)
	tool, arguments := action, ""
	if end := strings.IndexAny(action, " \t\r\n"); end >= 0 {
		tool, arguments = action[:end], strings.TrimSpace(action[end:])
	}
	return events.ToolCall{Tool: tool, Arguments: arguments, Outcome: events.Unknown}, tool != ""
}

// messages decodes a list of messages and hands on each. Errors name the field from the root of the run.
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

// text is the text of a string, of null, or of a list of parts such as {"type":"text","text":"…"}.
func text(field string, raw json.RawMessage) (string, error) {
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

// decode is json.Unmarshal with errors that name the field.
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

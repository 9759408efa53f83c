// Package steps assembles recorded messages to the steps of a run. It matches results to calls, converts actions in the text of an
// agent to calls, and detects failed calls from their output. Package modelapi reads the messages.
package steps

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/events"
	"debrief/events/outcome"
)

// Conversation converts messages to the steps of an execution. The first message of a user is the question. Tool results
// are added to their calls. Every other turn of a user or an assistant is a step.
type Conversation struct {
	// Commands is set for an agent that writes commands in its text. The next user message is the output of the command.
	Commands bool
	// Greets is set for an agent that speaks first. The first user message after it is the question.
	Greets bool

	// Run is the run so far. Its answer is the text of the last assistant turn without a tool call.
	Run
	Open []OpenCall // calls that have no result yet, in the order of the calls

	turn     int              // index of the last step of the assistant
	asks     bool             // this step has a call that the client runs
	answered map[callKey]bool // calls with a result
	ids      []string         // as Run.IDs, but without entries for the last steps if these have no id
}

// OpenCall is the place of a call that waits for its result.
type OpenCall struct {
	ID   string // may be empty
	Step int    // index into Run.Steps
	Call int    // index into Step.Calls
}

// maxOpenCalls is the maximum number of calls that wait for a result. If there are more, the oldest ones get no result.
const maxOpenCalls = 1000

// AddItems adds messages.
func (c *Conversation) AddItems(items []modelapi.Item) {
	for i := range items {
		c.AddItem(&items[i], time.Time{})
	}
}

// AddItem adds a message. at is the time of a turn of the assistant; it may be zero.
func (c *Conversation) AddItem(t *modelapi.Item, at time.Time) {
	c.Invalid += t.Invalid
	for i := range t.Results {
		c.AddResult(&t.Results[i])
	}
	switch {
	case t.Role == modelapi.RoleSystem:
		c.AddSystemPrompt(t.Text)
	case t.Role == modelapi.RoleUser && t.Text != "":
		c.User(t.Text)
	case t.Role == modelapi.RoleAssistant && (t.Text != "" || len(t.Calls) > 0):
		c.AddTurn(Turn{At: at, Text: t.Text, Calls: t.Calls})
	}
}

// AddSystemPrompt adds a text to the system prompt of the agent. A text that is there already is ignored, because recorders repeat it with
// each call of the model. A further text in the middle of the conversation is left out: it belongs to that place.
func (c *Conversation) AddSystemPrompt(prompt string) {
	known := ""
	if c.Agent != nil {
		known = c.Agent.SystemPrompt
	}
	prompt = strings.TrimSpace(prompt)
	switch {
	case strings.Contains(known, prompt): // true for an empty prompt
	case known == "" || c.IsEmpty():
		c.agent().SystemPrompt = strings.TrimSpace(known + "\n\n" + prompt)
	}
}

// SetTools sets the tools of the agent, unless the list is empty.
func (c *Conversation) SetTools(tools []modelapi.Tool) {
	if len(tools) > 0 {
		c.agent().Tools = ToolsOf(tools)
	}
}

// agent returns the description of the agent.
func (c *Conversation) agent() *events.Agent {
	if c.Agent == nil {
		c.Agent = new(events.Agent)
	}
	return c.Agent
}

// ToolsOf converts the tools of a request.
func ToolsOf(tools []modelapi.Tool) (list []events.Tool) {
	for _, t := range tools {
		list = append(list, events.Tool(t))
	}
	return list
}

// Identify adds the recorder's id of a message to the last step. The id must be unique among the runs of the recorder, and the same in a
// copy of the run.
func (c *Conversation) Identify(id string) {
	if id == "" || len(c.Steps) == 0 {
		return
	}
	c.ids = pad(c.ids, len(c.Steps))
	c.ids[len(c.Steps)-1] += id + "\n"
}

// pad appends empty ids until there are n.
func pad(ids []string, n int) []string {
	return append(ids, make([]string, max(0, n-len(ids)))...)
}

// AddTime adds the time of a message. The first time is the start of the run, and the duration is the time from it to the last one. A zero
// time changes nothing.
func (c *Conversation) AddTime(at time.Time) {
	switch {
	case at.IsZero():
	case c.Started.IsZero():
		c.Started = at
	default:
		c.Duration = ValidDuration(at.Sub(c.Started).Seconds())
	}
}

// IsEmpty reports whether no message was added.
func (c *Conversation) IsEmpty() bool { return c.Question == "" && len(c.Steps) == 0 }

// IsOpen reports whether a call with the id waits for its result.
func (c *Conversation) IsOpen(id string) bool {
	return id != "" && slices.ContainsFunc(c.Open, func(o OpenCall) bool { return o.ID == id })
}

// User adds a message of the user: the question, the output of a command, or a step.
func (c *Conversation) User(content string) {
	output := &modelapi.ToolResult{Output: content}
	i := c.find(output) // of the first open call of the last turn, because the output has no id
	isQuestion := c.Question == "" && (len(c.Steps) == 0 || c.Greets)
	switch {
	case c.Commands && i >= 0:
		c.Close(i, output)
	case isQuestion:
		c.Question = content
	default:
		c.Steps = append(c.Steps, events.Step{Speaker: "user", Text: content})
	}
}

// Turn is a turn of the assistant.
type Turn struct {
	Continues bool      // the turn belongs to the last step
	At        time.Time // may be zero
	Text      string
	Calls     []modelapi.ToolCall
}

// AddTurn adds a turn of the assistant, as a new step or to the last step. The text of the step becomes the answer, unless the
// step has a call that the client runs.
func (c *Conversation) AddTurn(t Turn) {
	if c.repeatsLastStep(t.Calls) {
		t = c.withoutRepeated(t)
		if t.Text == "" && len(t.Calls) == 0 {
			return
		}
	}
	if !t.Continues || len(c.Steps) == 0 {
		c.Steps = append(c.Steps, events.Step{Speaker: "assistant", At: t.At})
		c.asks = false
	}
	c.turn = len(c.Steps) - 1
	step := &c.Steps[c.turn]
	if step.Text != "" && t.Text != "" {
		step.Text += "\n"
	}
	step.Text += t.Text
	for i := range t.Calls {
		c.addCall(&t.Calls[i])
	}
	if !c.asks && step.Text != "" {
		c.Answer = step.Text
	}
}

// addCall adds a call to the last turn. The call is open unless it has its result.
func (c *Conversation) addCall(call *modelapi.ToolCall) {
	step := &c.Steps[c.turn]
	step.Calls = append(step.Calls, events.ToolCall{Tool: toolOf(call), Arguments: call.Arguments, Outcome: events.Unknown})
	c.Open = append(c.Open, OpenCall{ID: call.ID, Step: c.turn, Call: len(step.Calls) - 1})
	if call.Result != nil {
		c.Close(len(c.Open)-1, call.Result)
	} else {
		c.asks = true
	}
	if len(c.Open) > maxOpenCalls {
		c.Open = slices.Delete(c.Open, 0, 1)
	}
}

// callKey identifies a call that may be recorded several times. Clients use an id again for another call, so name and arguments are part of
// the key.
type callKey struct{ id, tool, arguments string }

// keyOf returns the key of a recorded call.
func keyOf(call *modelapi.ToolCall) callKey { return callKey{call.ID, toolOf(call), call.Arguments} }

// openKey returns the key of an open call.
func (c *Conversation) openKey(o OpenCall) callKey {
	call := &c.Steps[o.Step].Calls[o.Call]
	return callKey{o.ID, call.Tool, call.Arguments}
}

// toolOf returns the tool of a recorded call.
func toolOf(call *modelapi.ToolCall) string { return cmp.Or(call.Name, "unknown") }

// repeatsLastStep reports whether the last step is of the assistant, and one of the calls was recorded before. Some recorders write a message
// again with all blocks so far, and may give it another id.
func (c *Conversation) repeatsLastStep(calls []modelapi.ToolCall) bool {
	if len(c.Steps) == 0 || c.Steps[len(c.Steps)-1].Speaker != "assistant" {
		return false
	}
	return slices.ContainsFunc(calls, func(call modelapi.ToolCall) bool { return c.findEqual(&call) >= 0 || c.isAnswered(&call) })
}

// withoutRepeated returns a turn that repeats the last step without its repeated text and calls. A result in a repeated call is added to the
// open call. The rest of the turn continues the last step, unless a call of that one has its result.
func (c *Conversation) withoutRepeated(t Turn) Turn {
	t.Continues = t.Continues || !c.lastStepHasResult()
	t.Text = strings.TrimSpace(strings.TrimPrefix(t.Text, c.Steps[len(c.Steps)-1].Text))
	var added []modelapi.ToolCall
	for i := range t.Calls {
		call := &t.Calls[i]
		open := c.findEqual(call)
		switch {
		case open >= 0 && call.Result != nil:
			c.Close(open, call.Result)
		case open >= 0, call.Result != nil && c.isAnswered(call):
			continue
		default: // it may repeat an answered call: dropRepeated removes it if it gets no result
			added = append(added, *call)
		}
	}
	t.Calls = added
	return t
}

// lastStepHasResult reports whether a call of the last step has its result.
func (c *Conversation) lastStepHasResult() bool {
	last := len(c.Steps) - 1
	open := 0 // calls of the step without a result
	for _, o := range c.Open {
		if o.Step == last {
			open++
		}
	}
	return open < len(c.Steps[last].Calls)
}

// findEqual returns the index of the open call with the same id, tool and arguments, or -1. A call without an id has none.
func (c *Conversation) findEqual(call *modelapi.ToolCall) int {
	if call.ID == "" {
		return -1
	}
	return slices.IndexFunc(c.Open, func(o OpenCall) bool { return c.openKey(o) == keyOf(call) })
}

// isAnswered reports whether a call with the same id, tool and arguments has its result.
func (c *Conversation) isAnswered(call *modelapi.ToolCall) bool {
	return call.ID != "" && c.answered[keyOf(call)]
}

// dropRepeated removes the calls that have no result and equal an answered call: the recorder wrote them again.
func (c *Conversation) dropRepeated() {
	for _, o := range slices.Backward(c.Open) { // the last one first, so that the indices of the others stay valid
		step := &c.Steps[o.Step]
		if o.ID == "" || !c.answered[c.openKey(o)] {
			continue
		}
		step.Calls = slices.Delete(step.Calls, o.Call, o.Call+1)
		if len(step.Calls) == 0 && step.Text == "" {
			c.Steps = slices.Delete(c.Steps, o.Step, o.Step+1)
			if o.Step < len(c.ids) {
				c.ids = slices.Delete(c.ids, o.Step, o.Step+1)
			}
		}
	}
	c.Open = nil
}

// AddResult adds a result to its open call, and returns the place of the call. If there is no open call, it adds one.
func (c *Conversation) AddResult(r *modelapi.ToolResult) OpenCall {
	found := c.find(r)
	if found < 0 { // the call was not recorded; the result is kept without it
		tool := cmp.Or(r.Name, "unknown")
		c.Steps = append(c.Steps, events.Step{Speaker: "assistant", Calls: []events.ToolCall{{Tool: tool, Outcome: events.Unknown}}})
		c.Open = append(c.Open, OpenCall{Step: len(c.Steps) - 1})
		c.asks = true
		found = len(c.Open) - 1
	}
	return c.Close(found, r)
}

// find returns the index of the open call of a result, or -1. The call is, in this order:
//
//   - the last one with the id of the result: tau-bench and the examples of SWE-agent repeat ids;
//   - the first one of its tool in the last turn;
//   - the first one of the last turn.
func (c *Conversation) find(r *modelapi.ToolResult) int {
	byID, byName, first := -1, -1, -1
	for i, o := range c.Open {
		switch {
		case r.CallID != "" && o.ID == r.CallID:
			byID = i
		case o.Step != c.turn:
			continue
		case byName < 0 && r.Name != "" && r.Name == c.Steps[o.Step].Calls[o.Call].Tool:
			byName = i
		case first < 0:
			first = i
		}
	}
	switch {
	case byID >= 0:
		return byID
	case byName >= 0:
		return byName
	}
	return first
}

// Close sets the result of the i-th open call, and returns the place of the call.
func (c *Conversation) Close(i int, r *modelapi.ToolResult) OpenCall {
	o := c.Open[i]
	c.setResult(c.TakeCall(i), r)
	return o
}

// setResult sets the result of a call. The outcome is detected before the output is cut, because the error may be in the middle.
func (c *Conversation) setResult(call *events.ToolCall, r *modelapi.ToolResult) {
	c.SetOutput(call, r.Output, outcome.OfTool(call, r.Output, r.Signs))
}

// TakeCall removes the i-th call from the open calls and returns it. The caller sets its result.
func (c *Conversation) TakeCall(i int) *events.ToolCall {
	o := c.Open[i]
	c.Open = slices.Delete(c.Open, i, i+1)
	call := &c.Steps[o.Step].Calls[o.Call]
	if c.answered == nil {
		c.answered = map[callKey]bool{}
	}
	c.answered[c.openKey(o)] = true
	return call
}

// SetOutput sets the output and the outcome of a call. It shortens a long output.
func (c *Conversation) SetOutput(call *events.ToolCall, output string, outcome events.Label) {
	call.Outcome, call.Output = outcome, Clip(output)
}

// ErrNoTurn is returned for a run without a turn of the assistant.
var ErrNoTurn = errors.New("the run has no assistant turn")

// End returns the run, or ErrNoTurn. Nothing can be added to it afterwards. A run without a name is named by its session.
func (c *Conversation) End() ([]*Run, error) {
	c.dropRepeated()
	if !slices.ContainsFunc(c.Steps, func(s events.Step) bool { return s.Speaker == "assistant" }) {
		return nil, ErrNoTurn
	}
	c.Name = cmp.Or(c.Name, source.Printable(c.Session))
	c.Outcome.Label = cmp.Or(c.Outcome.Label, events.Unknown)
	if len(c.ids) > 0 {
		c.IDs = pad(c.ids, len(c.Steps))
	}
	return []*Run{&c.Run}, nil
}

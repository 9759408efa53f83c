package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
)

// sweFile is a SWE-agent trajectory file. The trajectory has the agent's steps and their durations. The history has the whole
// conversation with the demonstrations; only it contains the task. Some files have only one of the two.
type sweFile struct {
	Trajectory []json.RawMessage `json:"trajectory"`
	History    []json.RawMessage `json:"history"`
	Info       struct {
		ExitStatus json.RawMessage `json:"exit_status"`
		Submission json.RawMessage `json:"submission"`
		ModelStats struct {
			InstanceCost   float64 `json:"instance_cost"`
			TokensSent     float64 `json:"tokens_sent"`
			TokensReceived float64 `json:"tokens_received"`
			APICalls       float64 `json:"api_calls"`
		} `json:"model_stats"`
	} `json:"info"`
}

type sweStep struct {
	Action      json.RawMessage   `json:"action"`
	Observation json.RawMessage   `json:"observation"`
	Thought     json.RawMessage   `json:"thought"`
	Response    json.RawMessage   `json:"response"`
	Seconds     float64           `json:"execution_time"`
	ToolCalls   []json.RawMessage `json:"tool_calls"`
}

// sweMessage has the fields of a message of the history that no model API has.
type sweMessage struct {
	Thought json.RawMessage `json:"thought"`
	Action  json.RawMessage `json:"action"`
	IsDemo  bool            `json:"is_demo"`
}

// sweAgent parses a trajectory file. The outcome is unknown, because the file does not contain a verification of the
// agent's submission.
func sweAgent(raw []byte) (*steps.Run, error) {
	var f sweFile
	if err := source.Decode(raw, &f); err != nil {
		return nil, err
	}
	if f.Trajectory == nil && f.History == nil {
		return nil, errors.New("fields trajectory, history: both are null")
	}
	c := steps.Conversation{Commands: true}
	called := callIndex{}
	for i, raw := range f.History {
		if err := addHistory(&c, raw, called); err != nil {
			return nil, fmt.Errorf("history[%d]: %w", i, err)
		}
	}
	if len(f.Trajectory) > 0 {
		c.Steps = c.Steps[:0]
		for i, raw := range f.Trajectory {
			if err := addStep(&c, raw, called); err != nil {
				return nil, fmt.Errorf("trajectory[%d]: %w", i, err)
			}
		}
	}
	if len(c.Steps) == 0 {
		return nil, errors.New("fields trajectory, history: no steps")
	}
	answer, err := modelapi.ContentText("info.submission", f.Info.Submission)
	if err != nil {
		return nil, err
	}
	status, err := modelapi.ContentText("info.exit_status", f.Info.ExitStatus)
	if err != nil {
		return nil, err
	}
	e := &events.Execution{Question: taskStatement(c.Question), Steps: c.Steps, Answer: answer, Outcome: events.Outcome{Label: events.Unknown}}
	if status != "" {
		e.Outcome.Feedback = "exit status: " + status
	}
	stats := f.Info.ModelStats
	e.Usage = chat.Usage{
		Calls:        steps.ValidCount(stats.APICalls),
		InputTokens:  steps.ValidCount(stats.TokensSent),
		OutputTokens: steps.ValidCount(stats.TokensReceived),
		Cost:         max(0, stats.InstanceCost),
	}
	return &steps.Run{Execution: e, Omitted: c.Omitted}, nil
}

// addHistory adds a message of the history. Its content is the thought followed by the action.
func addHistory(c *steps.Conversation, raw json.RawMessage, called callIndex) error {
	var m sweMessage
	if err := source.Decode(raw, &m); err != nil {
		return err
	}
	action, err1 := modelapi.ContentText("action", m.Action)
	thought, err2 := modelapi.ContentText("thought", m.Thought)
	item, err3 := modelapi.ParseMessage(raw)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	switch {
	case m.IsDemo:
		c.Omit(source.Demonstrations, 1)
		return nil
	case item.Role == modelapi.RoleAssistant:
		called.note(action, item.Calls)
		if strings.TrimSpace(thought) != "" {
			item.Text = thought
		}
		if call, ok := steps.ParseCommand(action); ok && len(item.Calls) == 0 {
			item.Calls = []modelapi.ToolCall{{Name: call.Tool, Arguments: call.Arguments}}
		}
	}
	c.AddItem(&item, events.Step{})
	return nil
}

// addStep adds a step of the trajectory.
func addStep(c *steps.Conversation, raw json.RawMessage, called callIndex) error {
	var s sweStep
	if err := source.Decode(raw, &s); err != nil {
		return err
	}
	action, err1 := modelapi.ContentText("action", s.Action)
	observation, err2 := modelapi.ContentText("observation", s.Observation)
	thought, err3 := modelapi.ContentText("thought", s.Thought)
	response, err4 := modelapi.ContentText("response", s.Response)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if strings.TrimSpace(thought) == "" {
		thought = response
	}
	step := events.Step{Speaker: "assistant", Text: thought}
	call, acted := steps.ParseCommand(action)
	recorded := called.take(action, s.ToolCalls)
	if len(recorded) > 0 { // the agent runs one command at a time, so the observation belongs to the first call
		call, acted = events.ToolCall{Tool: recorded[0].Name, Arguments: recorded[0].Arguments}, true
	}
	if acted {
		c.SetOutput(&call, observation, outcome.OfTool(&call, observation, nil))
		call.Duration = steps.ValidDuration(s.Seconds)
		step.Calls = []events.ToolCall{call}
	}
	c.Steps = append(c.Steps, step)
	if !acted && observation != "" {
		c.Steps = append(c.Steps, events.Step{Speaker: "user", Text: observation})
	}
	return nil
}

// callIndex maps the actions of a trajectory to their function calls, which only the history contains. Equal actions have
// their calls in order.
type callIndex map[string][][]modelapi.ToolCall

func (by callIndex) note(action string, calls []modelapi.ToolCall) {
	if len(calls) > 0 {
		key := strings.TrimSpace(action)
		by[key] = append(by[key], calls)
	}
}

// take returns the calls that a step has recorded, else those of the history with its action.
func (by callIndex) take(action string, recorded []json.RawMessage) (calls []modelapi.ToolCall) {
	for _, raw := range recorded {
		if call, ok := modelapi.ParseCall(raw); ok {
			calls = append(calls, call)
		}
	}
	key := strings.TrimSpace(action)
	if list := by[key]; len(calls) == 0 && len(list) > 0 {
		calls, by[key] = list[0], list[1:]
	}
	return calls
}

// taskStatement returns the task description in SWE-agent's first prompt, without the instructions for the agent. It returns
// a prompt of another form unchanged.
func taskStatement(prompt string) string {
	statement, _, ok := strings.Cut(prompt, "\nINSTRUCTIONS:")
	if !ok {
		return prompt
	}
	if _, after, ok := strings.Cut(statement, "\nISSUE:"); ok {
		statement = after
	}
	return strings.TrimSpace(statement)
}

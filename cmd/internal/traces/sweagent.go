package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"debrief/cmd/internal/traces/messages"
	"debrief/cmd/internal/traces/source"
	"debrief/events"
	"debrief/events/chat"
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
	Action      json.RawMessage     `json:"action"`
	Observation json.RawMessage     `json:"observation"`
	Thought     json.RawMessage     `json:"thought"`
	Response    json.RawMessage     `json:"response"`
	Seconds     float64             `json:"execution_time"`
	ToolCalls   []messages.ToolCall `json:"tool_calls"`
}

// sweAgent parses a trajectory file. The outcome is unknown, because the file does not contain a verification of the
// agent's submission.
func sweAgent(raw []byte) (*messages.Run, error) {
	var f sweFile
	if err := source.Decode(raw, &f); err != nil {
		return nil, err
	}
	if f.Trajectory == nil && f.History == nil {
		return nil, errors.New("fields trajectory, history: both are null")
	}
	c := messages.Conversation{Commands: true, Failed: messages.ShellFailed}
	called := callIndex{}
	if err := messages.Each("history", source.Objects(f.History), func(m *messages.Message) error { called.note(m); return c.Add(m) }); err != nil {
		return nil, err
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
	answer, err := messages.JSONText("info.submission", f.Info.Submission)
	if err != nil {
		return nil, err
	}
	status, err := messages.JSONText("info.exit_status", f.Info.ExitStatus)
	if err != nil {
		return nil, err
	}
	e := &events.Execution{Question: taskStatement(c.Question), Steps: c.Steps, Answer: answer, Outcome: events.Outcome{Label: events.Unknown}}
	if status != "" {
		e.Outcome.Feedback = "exit status: " + status
	}
	stats := f.Info.ModelStats
	e.Usage = chat.Usage{
		Calls:        messages.ValidCount(stats.APICalls),
		InputTokens:  messages.ValidCount(stats.TokensSent),
		OutputTokens: messages.ValidCount(stats.TokensReceived),
		Cost:         max(0, stats.InstanceCost),
	}
	return &messages.Run{Execution: e, Omitted: c.Omitted}, nil
}

// addStep adds a step of the trajectory.
func addStep(c *messages.Conversation, raw json.RawMessage, called callIndex) error {
	var s sweStep
	if err := source.Decode(raw, &s); err != nil {
		return err
	}
	action, err1 := messages.JSONText("action", s.Action)
	observation, err2 := messages.JSONText("observation", s.Observation)
	thought, err3 := messages.JSONText("thought", s.Thought)
	response, err4 := messages.JSONText("response", s.Response)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if strings.TrimSpace(thought) == "" {
		thought = response
	}
	step := events.Step{Speaker: "assistant", Text: thought}
	call, acted := messages.ParseCommand(action)
	if len(s.ToolCalls) == 0 {
		s.ToolCalls = called.take(action)
	}
	if len(s.ToolCalls) > 0 { // the agent runs one command at a time, so the observation belongs to the first call
		var err error
		if call, err = s.ToolCalls[0].Call(); err != nil {
			return fmt.Errorf("tool_calls[0]: %w", err)
		}
		acted = true
	}
	if acted {
		outcome := events.Success
		if c.Failed(action, observation) {
			outcome = events.Failure
		}
		c.SetOutput(&call, observation, outcome)
		call.Duration = messages.ValidDuration(s.Seconds)
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
type callIndex map[string][][]messages.ToolCall

func (by callIndex) note(m *messages.Message) {
	action, err := messages.JSONText("action", m.Action)
	if err == nil && !m.IsDemo && m.Role == "assistant" && len(m.ToolCalls) > 0 {
		key := strings.TrimSpace(action)
		by[key] = append(by[key], m.ToolCalls)
	}
}

func (by callIndex) take(action string) []messages.ToolCall {
	key := strings.TrimSpace(action)
	calls := by[key]
	if len(calls) == 0 {
		return nil
	}
	by[key] = calls[1:]
	return calls[0]
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

package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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
	Action      json.RawMessage `json:"action"`
	Observation json.RawMessage `json:"observation"`
	Thought     json.RawMessage `json:"thought"`
	Response    json.RawMessage `json:"response"`
	Seconds     float64         `json:"execution_time"`
	ToolCalls   []toolCall      `json:"tool_calls"`
}

// sweAgent parses a trajectory file. The outcome is unknown, because the file does not contain a verification of the
// agent's submission.
func sweAgent(raw []byte) (*run, error) {
	var f sweFile
	if err := decode(raw, &f); err != nil {
		return nil, err
	}
	if f.Trajectory == nil && f.History == nil {
		return nil, errors.New("fields trajectory, history: both are null")
	}
	c := conversation{commands: true, failed: shellFailed}
	called := callIndex{}
	if err := messages("history", f.History, func(m *message) error { called.note(m); return c.add(m) }); err != nil {
		return nil, err
	}
	if len(f.Trajectory) > 0 {
		c.steps = c.steps[:0]
		for i, raw := range f.Trajectory {
			if err := c.addStep(raw, called); err != nil {
				return nil, fmt.Errorf("trajectory[%d]: %w", i, err)
			}
		}
	}
	if len(c.steps) == 0 {
		return nil, errors.New("fields trajectory, history: no steps")
	}
	answer, err := jsonText("info.submission", f.Info.Submission)
	if err != nil {
		return nil, err
	}
	status, err := jsonText("info.exit_status", f.Info.ExitStatus)
	if err != nil {
		return nil, err
	}
	e := &events.Execution{Question: taskStatement(c.question), Steps: c.steps, Answer: answer, Outcome: events.Outcome{Label: events.Unknown}}
	if status != "" {
		e.Outcome.Feedback = "exit status: " + status
	}
	stats := f.Info.ModelStats
	e.Usage = chat.Usage{
		Calls:        validCount(stats.APICalls),
		InputTokens:  validCount(stats.TokensSent),
		OutputTokens: validCount(stats.TokensReceived),
		Cost:         max(0, stats.InstanceCost),
	}
	return &run{Execution: e}, nil
}

// addStep adds a step of the trajectory.
func (c *conversation) addStep(raw json.RawMessage, called callIndex) error {
	var s sweStep
	if err := decode(raw, &s); err != nil {
		return err
	}
	action, err1 := jsonText("action", s.Action)
	observation, err2 := jsonText("observation", s.Observation)
	thought, err3 := jsonText("thought", s.Thought)
	response, err4 := jsonText("response", s.Response)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if strings.TrimSpace(thought) == "" {
		thought = response
	}
	step := events.Step{Speaker: "assistant", Text: thought}
	call, acted := command(action)
	if len(s.ToolCalls) == 0 {
		s.ToolCalls = called.take(action)
	}
	if len(s.ToolCalls) > 0 { // the agent runs one command at a time, so the observation belongs to the first call
		var err error
		if call, err = s.ToolCalls[0].call(); err != nil {
			return fmt.Errorf("tool_calls[0]: %w", err)
		}
		acted = true
	}
	if acted {
		outcome := events.Success
		if c.failed(action, observation) {
			outcome = events.Failure
		}
		setOutput(&call, observation, outcome)
		call.Duration = validDuration(s.Seconds)
		step.Calls = []events.ToolCall{call}
	}
	c.steps = append(c.steps, step)
	if !acted && observation != "" {
		c.steps = append(c.steps, events.Step{Speaker: "user", Text: observation})
	}
	return nil
}

// callIndex maps the actions of a trajectory to their function calls, which only the history contains. Equal actions have
// their calls in order.
type callIndex map[string][][]toolCall

func (by callIndex) note(m *message) {
	action, err := jsonText("action", m.Action)
	if err == nil && !m.IsDemo && m.Role == "assistant" && len(m.ToolCalls) > 0 {
		key := strings.TrimSpace(action)
		by[key] = append(by[key], m.ToolCalls)
	}
}

func (by callIndex) take(action string) []toolCall {
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

// validDuration converts recorded seconds to a duration. It returns 0 for a negative or implausible value.
func validDuration(s float64) time.Duration {
	const year = 365 * 24 * 3600
	if s < 0 || s > year {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// validCount returns a recorded count, or 0 if it is negative or implausibly large.
func validCount(n float64) int {
	if n < 0 || n > 1e12 {
		return 0
	}
	return int(n)
}

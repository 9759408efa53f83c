package traces

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
)

// tauRun is an element of a tau-bench results file (sierra-research/tau-bench, EnvRunResult).
type tauRun struct {
	TaskID json.RawMessage   `json:"task_id"` // a number; a string in later versions
	Trial  json.RawMessage   `json:"trial"`
	Reward *float64          `json:"reward"`
	Info   json.RawMessage   `json:"info"`
	Traj   []json.RawMessage `json:"traj"`
}

// tauBench parses one run. Its name is "<task_id>/<trial>".
func tauBench(raw []byte) (*steps.Run, error) {
	var r tauRun
	if err := source.Decode(raw, &r); err != nil {
		return nil, err
	}
	task, err := source.ParseID("task_id", r.TaskID)
	if err != nil {
		return nil, err
	}
	if r.Traj == nil {
		return nil, errors.New("field traj: is missing")
	}
	if len(r.Traj) == 0 {
		return nil, crashError(r.Info)
	}
	trial := "0"
	if r.Trial != nil {
		if trial, err = source.ParseID("trial", r.Trial); err != nil {
			return nil, err
		}
	}
	outcome, err := rewardOutcome(r.Reward)
	if err != nil {
		return nil, err
	}
	c := steps.Conversation{}
	if err := c.AddMessages("traj", r.Traj); err != nil {
		return nil, err
	}
	label := task
	var info struct {
		Task json.RawMessage `json:"task"`
	}
	if json.Unmarshal(r.Info, &info) == nil && len(info.Task) > 2 { // each domain numbers its tasks from 0
		label += "/" + hex.EncodeToString(source.Digest(info.Task)[:4])
	}
	e := &events.Execution{Question: c.Question, Steps: c.Steps, Answer: c.Answer, Outcome: outcome}
	return &steps.Run{Execution: e, Name: task + "/" + trial, Task: label, Omitted: c.Omitted}, nil
}

// rewardOutcome converts a reward to an outcome. tau-bench verifies the state of its database after the run: 1 is correct, 0
// is wrong.
func rewardOutcome(reward *float64) (events.Outcome, error) {
	o := events.Outcome{Label: events.Partial, By: sourceTauBench}
	switch {
	case reward == nil:
		return events.Outcome{Label: events.Unknown}, nil
	case !(*reward >= 0 && *reward <= 1):
		return o, fmt.Errorf("field reward: must be between 0 and 1, got %v", *reward)
	case *reward == 1:
		o.Label = events.Success
	case *reward == 0:
		o.Label = events.Failure
	}
	o.Score = *reward
	return o, nil
}

// crashError returns the error for a run without a conversation. If an exception ends a run before its first turn, tau-bench
// records reward 0 and the exception. Such a run does not count as an attempt.
func crashError(info json.RawMessage) error {
	var why struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(info, &why) == nil && why.Error != "" {
		return fmt.Errorf("field traj: is empty, the recorded run stopped with %.200q", why.Error)
	}
	return errors.New("field traj: is empty")
}

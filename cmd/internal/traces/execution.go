package traces

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
)

// executionLine is a line in the execution format; see the package documentation.
type executionLine struct {
	ID        events.ID       `json:"id"`
	RunID     json.RawMessage `json:"task_id"`
	Session   string          `json:"session"`
	Question  string          `json:"question"`
	Context   string          `json:"context"`
	Target    string          `json:"target"`
	Purpose   events.Purpose  `json:"purpose"`
	Reasoning string          `json:"reasoning"`
	Answer    string          `json:"answer"`
	Model     string          `json:"model"`
	Usage     chat.Usage      `json:"usage"`
	Started   time.Time       `json:"started"`
	Duration  time.Duration   `json:"duration_ns"`
	Steps     []events.Step   `json:"steps"`
	Origin    events.Origin   `json:"origin"`
	steps.RecordedOutcome
}

// execution parses a line in the execution format.
func execution(raw []byte) (*steps.Run, error) {
	var w executionLine
	if err := source.Decode(raw, &w); err != nil {
		return nil, err
	}
	if len(w.Steps) == 0 && strings.TrimSpace(w.Answer) == "" {
		return nil, errors.New("fields steps, answer: both are empty, want at least one")
	}
	outcome, err := w.ParseOutcome("")
	if err != nil {
		return nil, err
	}
	e := &events.Execution{
		Session: w.Session, Question: w.Question, Context: w.Context, Target: w.Target, Purpose: w.Purpose, Reasoning: w.Reasoning, Answer: w.Answer,
		Steps: w.Steps, Outcome: outcome, Model: w.Model, Started: w.Started, Duration: max(0, w.Duration),
		Usage: chat.Usage{
			Calls: max(0, w.Usage.Calls), InputTokens: max(0, w.Usage.InputTokens), OutputTokens: max(0, w.Usage.OutputTokens),
			Cost: steps.ValidCost(w.Usage.Cost), CachedTokens: max(0, w.Usage.CachedTokens),
		},
		Origin: events.Origin{Source: w.Origin.Source, Task: w.Origin.Task},
	}
	for i := range e.Steps {
		if err := checkStep(&e.Steps[i]); err != nil {
			return nil, fmt.Errorf("steps[%d].%w", i, err)
		}
	}
	task := ""
	if len(w.RunID) > 0 && string(w.RunID) != "null" {
		if task, err = source.ParseID("task_id", w.RunID); err != nil {
			return nil, err
		}
	}
	if w.ID != "" {
		if task == "" {
			return nil, errors.New("field task_id: is missing, required with field id")
		}
		if e.Origin.Round = w.Origin.Round; e.Origin.Round < 0 || e.Origin.Round > events.MaxPreviousRounds {
			return nil, fmt.Errorf("field origin.round: must be between 0 and %d, got %d", events.MaxPreviousRounds, e.Origin.Round)
		}
		if e.RunID = task; json.Unmarshal(w.RunID, &task) == nil {
			e.RunID = task // the exact string, not the printable form
		}
		return &steps.Run{Execution: e, HasRunID: true}, nil
	}
	e.Origin.Task = cmp.Or(e.Origin.Task, task)
	return &steps.Run{Execution: e, Name: task}, nil
}

// checkStep validates a step and sets the defaults of optional fields. Errors name the field of the step.
func checkStep(s *events.Step) error {
	if s.Speaker = cmp.Or(s.Speaker, "assistant"); s.Speaker != "assistant" && s.Speaker != "user" {
		return fmt.Errorf("speaker: got %.40q, want assistant or user", s.Speaker)
	}
	s.Record = nil // derived from the step when it is needed
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Tool == "" {
			return fmt.Errorf("tool_calls[%d].tool: is missing", i)
		}
		if c.Outcome == "" {
			c.Outcome = outcome.OfTool(c, c.Output, nil)
		}
		switch c.Outcome {
		case events.Success, events.Partial, events.Failure, events.TimedOut, events.Errored, events.Unknown:
		default:
			return fmt.Errorf("tool_calls[%d].outcome: got %.40q, want success, failure, timeout or error", i, string(c.Outcome))
		}
		c.Output, c.Duration = steps.Clip(c.Output), max(0, c.Duration)
	}
	return nil
}

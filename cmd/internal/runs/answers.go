package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
)

// The names of the fields and columns of question-and-answer logs. The first one that has a value is used.
var (
	scoreNames   = []string{"score", "outcome", "reward", "correct", "is_correct", "passed", "success", "label"}
	idNames      = []string{"id", "run_id", "task_id", "example_id"}
	targetNames  = []string{"target", "expected", "expected_output", "reference", "reference_answer", "ground_truth"}
	commentNames = []string{"feedback", "comment"}
)

// isAnswer reports whether an object has a question, an answer and no steps.
func isAnswer(v modelapi.Value) bool {
	return v.TextOrNumber(steps.QuestionNames...) != "" && v.TextOrNumber(steps.AnswerNames...) != "" && !v.HasAny("steps", "messages")
}

// isAnswerLog reports whether an object that looks like a short execution of Debrief is a line of another log: it has an outcome under a name that
// executions do not use, or an id of another form.
func isAnswerLog(v modelapi.Value) bool {
	if v.HasAny("task_id", "steps") || !isAnswer(v) {
		return false
	}
	hasOtherID := v.HasAny("id") && !executionID.MatchString(v.Text("id"))
	return hasOtherID || v.HasAny("correct", "is_correct", "passed", "success", "label")
}

// executionID matches the id of an execution: 16 bytes in base64url.
var executionID = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// answer parses a question with its answer: a line of a log, or a row of a table.
func answer(v *record) ([]*steps.Run, error) {
	e := events.Execution{
		Question: v.TextOrNumber(steps.QuestionNames...), Context: v.TextOrNumber("context"), Answer: v.TextOrNumber(steps.AnswerNames...),
		Target: v.TextOrNumber(targetNames...), Model: v.TextOrNumber("model"),
	}
	if strings.TrimSpace(e.Question) == "" || strings.TrimSpace(e.Answer) == "" {
		return nil, errors.New("fields question, answer: must not be empty")
	}
	id := v.TextOrNumber(idNames...)
	if id == "" {
		for _, name := range idNames {
			if v.HasAny(name) {
				v.Note(name, "want a number or a string")
			}
		}
	}
	result, err := steps.ParseOutcome(v.Value, scoreNames, sourceQA, v.leadingScore)
	if err != nil {
		return nil, err
	}
	result.Feedback = cmp.Or(result.Feedback, v.TextOrNumber(commentNames...))
	e.Outcome = result
	return []*steps.Run{{Name: source.Printable(id), Execution: e}}, nil
}

// executionLine is a line in the execution format; see the package documentation.
type executionLine struct {
	ID        events.ID      `json:"id"`
	User      string         `json:"user"`
	Session   string         `json:"session"`
	Question  string         `json:"question"`
	Context   string         `json:"context"`
	Target    string         `json:"target"`
	Agent     *events.Agent  `json:"agent"`
	Purpose   events.Purpose `json:"purpose"`
	Reasoning string         `json:"reasoning"`
	Answer    string         `json:"answer"`
	Model     string         `json:"model"`
	Usage     chat.Usage     `json:"usage"`
	Started   time.Time      `json:"started"`
	Duration  time.Duration  `json:"duration_ns"`
	Steps     []events.Step  `json:"steps"`
	Origin    events.Origin  `json:"origin"`
}

// execution parses a line in the execution format.
func execution(v *record) ([]*steps.Run, error) {
	var w executionLine
	if err := json.Unmarshal(v.Raw(), &w); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = fmt.Errorf("field %s: got a JSON %s, want %s", wrong.Field, wrong.Value, wrong.Type)
		}
		return nil, err
	}
	if len(w.Steps) == 0 && strings.TrimSpace(w.Answer) == "" {
		return nil, errors.New("fields steps, answer: both are empty, want at least one")
	}
	result, err := steps.ParseOutcome(v.Value, steps.OutcomeNames, "", v.leadingScore)
	if err != nil {
		return nil, err
	}
	e := events.Execution{
		User: w.User, Session: w.Session, Question: w.Question, Context: w.Context, Target: w.Target, Agent: w.Agent, Purpose: w.Purpose,
		Reasoning: w.Reasoning, Answer: w.Answer, Steps: w.Steps, Outcome: result,
		Model: w.Model, Started: w.Started, Duration: max(0, w.Duration),
		Usage:  w.Usage.Recorded(),
		Origin: events.Origin{Task: w.Origin.Task},
	}
	for i := range e.Steps {
		if err := checkStep(&e.Steps[i]); err != nil {
			return nil, fmt.Errorf("steps[%d].%w", i, err)
		}
	}
	if w.ID == "" { // the line is of another program: task_id is its name of the task
		name := source.Printable(v.TextOrNumber("task_id"))
		e.Origin.Task = cmp.Or(e.Origin.Task, name)
		return []*steps.Run{{Execution: e, Name: name}}, nil
	}
	e.RunID = v.TextOrNumber("run_id")
	if e.RunID == "" {
		return nil, errors.New("field run_id: is missing, required with field id")
	}
	e.Origin.Round = w.Origin.Round
	if e.Origin.Round < 0 || e.Origin.Round > events.MaxPreviousRounds {
		return nil, fmt.Errorf("field origin.round: must be between 0 and %d, got %d", events.MaxPreviousRounds, e.Origin.Round)
	}
	return []*steps.Run{{Execution: e, HasRunID: true}}, nil
}

// checkStep validates a step and sets the defaults of optional fields. Errors name the field of the step.
func checkStep(s *events.Step) error {
	s.Speaker = cmp.Or(s.Speaker, "assistant")
	if s.Speaker != "assistant" && s.Speaker != "user" {
		return fmt.Errorf("speaker: got %.40q, want assistant or user", s.Speaker)
	}
	s.Record = nil // it is computed from the step when it is needed
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Tool == "" {
			return fmt.Errorf("tool_calls[%d].tool: is missing", i)
		}
		if c.Outcome == "" {
			c.Outcome = outcome.OfTool(c, c.Output, outcome.Signs{})
		}
		switch c.Outcome {
		case events.Success, events.Partial, events.Failure, events.TimedOut, events.Errored, events.Unknown:
		default:
			return fmt.Errorf("tool_calls[%d].outcome: got %.40q, want success, partial, failure, timeout, error or unknown", i, string(c.Outcome))
		}
		c.Output, c.Duration = steps.Clip(c.Output), max(0, c.Duration)
	}
	return nil
}

package traces

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/outcome"
)

// The names of the fields and columns of question-and-answer logs. The first one that has a value is used.
var (
	scoreNames  = []string{"score", "outcome", "reward", "correct", "is_correct", "passed", "success", "label"}
	idNames     = []string{"id", "run_id", "task_id", "example_id"}
	targetNames = []string{"target", "expected", "expected_output", "reference", "reference_answer", "ground_truth"}
)

// row is a line of a question-and-answer log. Score is JSON, or the text of a column.
type row struct {
	id, question, context, answer, score, feedback, model string
	hasTarget                                             bool
}

// qaMatches reports whether an object has a question, an answer and no steps. An id without a task_id is the name of a run.
func qaMatches(o *source.Object) bool {
	return source.TextField(o, steps.QuestionNames) != "" && source.TextField(o, steps.AnswerNames) != "" && !o.HasAny("steps", "messages")
}

// isAnswerLog reports whether an object with question and answer is a line of a log and no execution of Debrief: it has a
// verdict under another name, or an id that no execution has.
func isAnswerLog(o *source.Object) bool {
	if o.HasAny("task_id", "steps") || !qaMatches(o) {
		return false
	}
	return o.HasAny("correct", "is_correct", "passed", "success", "label") || o.Has("id") && !executionID.MatchString(o.Text("id"))
}

// executionID matches the id of an execution: 16 bytes in base64url.
var executionID = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// qaObject parses a question with its answer.
func qaObject(o *source.Object) ([]*steps.Run, error) {
	r := row{
		question: source.TextField(o, steps.QuestionNames), answer: source.TextField(o, steps.AnswerNames), context: source.TextField(o, []string{"context"}),
		feedback: source.TextField(o, []string{"feedback", "comment"}), model: source.TextField(o, []string{"model"}),
		score: string(o.First(scoreNames...)), hasTarget: o.HasAny(targetNames...),
	}
	if id := o.First(idNames...); id != nil {
		name, err := source.ParseID("id", id)
		if err != nil {
			return nil, err
		}
		r.id = name
	}
	return asRuns(r.run())
}

func (r *row) run() (*steps.Run, error) {
	if strings.TrimSpace(r.question) == "" || strings.TrimSpace(r.answer) == "" {
		return nil, errors.New("fields question, answer: must not be empty")
	}
	result, err := outcome.Parse(r.score)
	if err != nil {
		return nil, fmt.Errorf("field score: %w", err)
	}
	if result.Label = cmp.Or(result.Label, events.Unknown); result.Known() {
		result.By = cmp.Or(result.By, sourceQA)
	}
	result.Feedback = cmp.Or(result.Feedback, r.feedback)
	out := &steps.Run{Name: source.Printable(r.id), Execution: &events.Execution{
		Question: r.question, Context: r.context, Answer: r.answer, Outcome: result, Model: r.model,
	}}
	if r.hasTarget {
		out.Omitted = source.Omissions{source.References: 1}
	}
	return out, nil
}

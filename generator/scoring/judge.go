package scoring

import (
	"context"
	"fmt"
	"math"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
	"debrief/playbook/text"
)

// ByJudge asks a model for a score by a rubric. With a target the model sees it as the reference, in both orders: before and after the
// answer. If the two verdicts differ, the outcome stays open. Its error must be measured on labels of people before the gate can allow for it.
const ByJudge = events.JudgeEvaluator

// WithModel returns a Scorer whose evaluator judge asks the model. A Scorer that has a model keeps it; a nil model changes nothing. A nil
// Scorer counts as one without programs, with the default rubric.
func (s *Scorer) WithModel(m chat.Model) *Scorer {
	out := Scorer{}
	if s != nil {
		out = *s
	}
	if out.judge == nil {
		out.judge = m
	}
	return &out
}

// verdict is the reply that the schema requires.
type verdict struct {
	Reason string  `json:"reason" jsonschema:"One or two sentences: the part of the rubric that decides."`
	Score  float64 `json:"score" jsonschema:"From 0, wrong, to 1, right."`
}

var verdictSchema = chat.SchemaOf[verdict]()

// JudgePrompts returns the prompts of a judge about an answer: one, or two in both orders if the task has a target. All texts of the task are
// quoted. An empty rubric selects chat.DefaultRubric.
func JudgePrompts(rubric string, t *events.Task, a Answer) []chat.Prompt {
	task := []chat.Quotation{{Name: "task", Text: t.Question}}
	if t.Context != "" {
		task = append(task, chat.Quotation{Name: "context", Text: t.Context})
	}
	answer, reference := chat.Quotation{Name: "answer", Text: a.Final}, chat.Quotation{Name: "reference", Text: t.Target}
	orders := [][]chat.Quotation{{answer}}
	if t.Target != "" {
		orders = [][]chat.Quotation{{reference, answer}, {answer, reference}}
	}
	var all []chat.Prompt
	for _, order := range orders {
		all = append(all, chat.Prompt{Name: ByJudge, Schema: verdictSchema, Messages: []chat.Message{
			{Speaker: chat.System, Text: judgeInstructions(rubric)},
			{Speaker: chat.User, Text: chat.Quote(append(task[:len(task):len(task)], order...)) + "\nReply with a JSON object with the fields reason and score."},
		}})
	}
	return all
}

func judgeInstructions(rubric string) string {
	if rubric == "" {
		rubric = chat.DefaultRubric
	}
	return chat.PromptJudge + chat.PromptQuotes + "\n\nRubric:\n\n" + rubric
}

// parseVerdict parses the reply of a judge.
func parseVerdict(r chat.Reply) (verdict, error) {
	reply, err := chat.ParseObject(r, "score")
	if err != nil {
		return verdict{}, err
	}
	raw, _ := reply.Field("score")
	o, err := outcome.Decode(raw)
	if err != nil {
		return verdict{}, fmt.Errorf("score: %w", err)
	}
	if !o.Known() {
		return verdict{}, fmt.Errorf("score: want a number from 0 to 1")
	}
	return verdict{Reason: reply.Text("reason"), Score: o.Score}, nil
}

// Judge asks the model of the Scorer about an answer. Without a usable verdict, because the model fails, its replies are invalid or the two
// orders differ, the outcome is unknown and its feedback says why. The usage counts all calls. The returned error is that of ctx, or
// ErrNotScorable without a model.
func (s *Scorer) Judge(ctx context.Context, t *events.Task, a Answer) (o events.Outcome, spent chat.Usage, err error) {
	if s == nil || s.judge == nil {
		return o, spent, fmt.Errorf("%w: evaluator %s: no model configured", ErrNotScorable, ByJudge)
	}
	o.Label = events.Unknown
	var verdicts []verdict
	for _, p := range JudgePrompts(s.cfg.Rubric, t, a) {
		v, reply, err := chat.Ask(ctx, s.judge, p, parseVerdict)
		spent = spent.Add(reply.Usage)
		o.By = judgeName(reply.Model, s.cfg.Rubric)
		if ctx.Err() != nil {
			return o, spent, ctx.Err()
		}
		if err != nil {
			o.Feedback = "The judge gave no verdict: " + shortText(err.Error())
			return o, spent, nil
		}
		verdicts = append(verdicts, v)
	}
	first, last := verdicts[0], verdicts[len(verdicts)-1]
	if (first.Score >= 0.5) != (last.Score >= 0.5) {
		o.Feedback = fmt.Sprintf("The judge gave no verdict: %.2f with the reference first, and %.2f with the answer first.", first.Score, last.Score)
		return o, spent, nil
	}
	o.Score = math.Round(50*(first.Score+last.Score)) / 100
	o.Label, o.Feedback = events.LabelOf(o.Score), events.TruncateChars(first.Reason, maxFeedback)
	return o, spent, nil
}

// maxModelName is the maximum length of the model in the name of a judge, in bytes.
const maxModelName = 200

// judgeName returns the name of a judge: its model, and the version of its instructions and rubric. The measured error belongs to it.
func judgeName(model, rubric string) string {
	return events.JudgePrefix + text.Clip(model, maxModelName) + "/" + chat.Fingerprint(judgeInstructions(rubric))
}

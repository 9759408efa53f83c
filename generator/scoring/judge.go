package scoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
	"debrief/playbook/text"
)

// ByJudge asks a model for a score by a rubric. If the task has a target, the model sees it as the reference, and is asked twice: with the
// reference before and after the answer. If one verdict is a success and the other is not, the outcome is unknown. The gate corrects for the error of a
// judge only after that error was measured on labels of people.
const ByJudge = events.JudgeEvaluator

// WithModel returns a copy of the Scorer whose evaluator judge asks the model. If the Scorer has a model already, the copy keeps that one. A nil
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

// namedVerdict is the reply that the schema requires if the rubric asks for several scores.
type namedVerdict struct {
	Reason string `json:"reason" jsonschema:"One or two sentences: the part of the rubric that decides."`
	Scores []struct {
		Name  string  `json:"name" jsonschema:"One of the names in the rubric."`
		Score float64 `json:"score" jsonschema:"From 0, the worst, to 1, the best."`
	} `json:"scores" jsonschema:"Each score of the rubric, once."`
}

var verdictSchema, namedSchema = chat.SchemaOf[verdict](), chat.SchemaOf[namedVerdict]()

// scoresLine is the first line of a rubric that asks for several scores.
var scoresLine = regexp.MustCompile(`(?i)^\s*scores:[ \t]*([\pL][\pL\pN _-]{0,39}(?:,[ \t]*[\pL][\pL\pN _-]{0,39}){1,9})[ \t]*(?:\r?\n|$)`)

// ScoreNames returns the names of the scores that a rubric asks for, sorted. They are in its first line, such as
//
//	Scores: correct, tone, cost
//
// It returns nil for a rubric that asks for one score.
func ScoreNames(rubric string) (names []string) {
	m := scoresLine.FindStringSubmatch(rubric)
	if m == nil {
		return nil
	}
	for name := range strings.SplitSeq(m[1], ",") {
		names = append(names, strings.TrimSpace(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// JudgePrompts returns the prompts of a judge about an answer: one, or two in both orders if the task has a target. All texts of the task are
// quoted. An empty rubric selects chat.DefaultRubric.
func JudgePrompts(rubric string, t *events.Task, a Answer) []chat.Prompt {
	task := []chat.Quotation{{Name: "task", Text: t.Question}}
	if t.Context != "" {
		task = append(task, chat.Quotation{Name: "context", Text: t.Context})
	}
	schema, fields := verdictSchema, "reason and score"
	if names := ScoreNames(rubric); names != nil {
		schema, fields = namedSchema, "reason and scores, which has an object with name and score for each of: "+strings.Join(names, ", ")
	}
	answer := chat.Quotation{Name: "answer", Text: a.Final}
	reference := chat.Quotation{Name: "reference", Text: t.Target}
	orders := [][]chat.Quotation{{answer}}
	if t.Target != "" {
		orders = [][]chat.Quotation{{reference, answer}, {answer, reference}}
	}
	var all []chat.Prompt
	for _, order := range orders {
		all = append(all, chat.Prompt{Name: ByJudge, Schema: schema, Messages: []chat.Message{
			{Speaker: chat.System, Text: judgeInstructions(rubric)},
			{Speaker: chat.User, Text: chat.Quote(append(task[:len(task):len(task)], order...)) + "\nReply with a JSON object with the fields " + fields + "."},
		}})
	}
	return all
}

// judgeInstructions returns the system message of a judge.
func judgeInstructions(rubric string) string {
	if rubric == "" {
		rubric = chat.DefaultRubric
	}
	instructions := chat.PromptJudge
	if ScoreNames(rubric) != nil {
		instructions += chat.PromptJudgeScores
	}
	return instructions + chat.PromptQuotes + "\n\nRubric:\n\n" + rubric
}

// parseVerdict returns a function that parses the replies of a judge. names are those of the rubric, see ScoreNames. The decoder selects the leading
// score.
func parseVerdict(names []string, d outcome.Decoder) func(chat.Reply) (events.Outcome, error) {
	field := "score"
	if names != nil {
		field = "scores"
	}
	return func(r chat.Reply) (events.Outcome, error) {
		reply, err := chat.ParseObject(r, field)
		if err != nil {
			return events.Outcome{}, errors.New(err.Error()) // hides a *chat.MissingError: after that, Ask would return the zero outcome as a verdict
		}
		raw, _ := reply.Field(field)
		object, err := json.Marshal(map[string]json.RawMessage{field: raw})
		if err != nil {
			return events.Outcome{}, err
		}
		o, err := d.Decode(object)
		if err != nil {
			return events.Outcome{}, fmt.Errorf("%s: %w", field, err)
		}
		if !o.Known() {
			return events.Outcome{}, fmt.Errorf("%s: want a number from 0 to 1", field)
		}
		slices.SortFunc(o.Scores, func(a, b events.NamedScore) int { return strings.Compare(a.Name, b.Name) })
		if got := scoreNames(o.Scores); !slices.Equal(got, names) {
			return events.Outcome{}, fmt.Errorf("scores: want exactly %s, got %s", strings.Join(names, ", "), shortText(strings.Join(got, ", ")))
		}
		o.Feedback = reply.Text("reason")
		return o.Outcome, nil
	}
}

// scoreNames returns the names of scores.
func scoreNames(scores []events.NamedScore) (names []string) {
	for _, s := range scores {
		names = append(names, s.Name)
	}
	return names
}

// checkLeading returns an error if the rubric asks for several scores and none of them is the leading score of the playbook. To find out,
// it decodes a sample verdict with these names.
func checkLeading(names []string, d outcome.Decoder) error {
	if names == nil {
		return nil
	}
	scores := map[string]int{}
	for _, name := range names {
		scores[name] = 1
	}
	raw, err := json.Marshal(map[string]any{"scores": scores})
	if err == nil {
		_, err = d.Decode(raw)
	}
	return err
}

// Judge asks the model of the Scorer about an answer. If the model fails, its replies are invalid, or the verdicts of the two orders differ, the
// outcome is unknown and its feedback has the reason. If the rubric asks for several scores, the leading one of the playbook counts:
// leading returns its name, or "" if no person chose one. spent is the usage of all calls. The returned error is the error of ctx or of leading, or
// ErrNotScorable without a model.
func (s *Scorer) Judge(ctx context.Context, t *events.Task, a Answer, leading func() (string, error)) (o events.Outcome, spent chat.Usage, err error) {
	if s == nil || s.judge == nil {
		return o, spent, fmt.Errorf("%w: evaluator %s: no model configured", ErrNotScorable, ByJudge)
	}
	o.Label = events.Unknown
	names, decoder := ScoreNames(s.cfg.Rubric), outcome.Decoder{Leading: leading}
	if err := checkLeading(names, decoder); err != nil {
		if errors.As(err, new(*outcome.LookupError)) {
			return o, spent, err
		}
		o.Feedback = "The judge was not asked: " + shortText(err.Error()) + ". Set the score that counts: debrief playbook leading-score NAME"
		return o, spent, nil
	}
	var verdicts []events.Outcome
	for _, p := range JudgePrompts(s.cfg.Rubric, t, a) {
		v, reply, err := chat.Ask(ctx, s.judge, p, parseVerdict(names, decoder))
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
	first, last := verdicts[0], verdicts[len(verdicts)-1] // without a target both are the only verdict
	const accepted = 0.5                                  // see chat.PromptJudge
	if (first.Score >= accepted) != (last.Score >= accepted) {
		o.Feedback = fmt.Sprintf("The judge gave no verdict: %.2f with the reference first, and %.2f with the answer first.", first.Score, last.Score)
		return o, spent, nil
	}
	o.Score = mean(first.Score, last.Score)
	o.Label, o.Feedback = events.LabelOf(o.Score), events.TruncateChars(first.Feedback, maxFeedback)
	for i := range first.Scores { // both have the same names in the same order
		o.Scores = append(o.Scores, events.NamedScore{Name: first.Scores[i].Name, Score: mean(first.Scores[i].Score, last.Scores[i].Score)})
	}
	return o, spent, nil
}

// mean returns the mean of the scores of two verdicts, rounded to hundredths.
func mean(x, y float64) float64 { return math.Round(50*(x+y)) / 100 }

// maxModelName is the maximum length of the model in the name of a judge, in bytes.
const maxModelName = 200

// judgeName returns the name of a judge: its model, and the version of its instructions and rubric. The measured error of a judge is stored with
// this name.
func judgeName(model, rubric string) string {
	return events.JudgePrefix + text.Clip(model, maxModelName) + "/" + judgeVersion(rubric)
}

// judgeVersion returns the version of the instructions with a rubric.
func judgeVersion(rubric string) string { return chat.Fingerprint(judgeInstructions(rubric)) }

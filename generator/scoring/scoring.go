// Package scoring scores answers. A task names its evaluator as text; all readers of tasks validate the name with
// Check. Answers are compared as data and never executed. A task can select an outside program only by name, from the
// programs that the operator has configured.
package scoring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
	"debrief/playbook/text"
)

// The evaluators that a task can name. ByDefault is the default for a task with a target.
const (
	// ByDefault compares as a person would: see outcome.Same.
	ByDefault = "default"
	// ByText compares the text, without surrounding white space. Like ByNumber it accepts the sentence "The answer is X."
	// for X, because models answer in prose.
	ByText = "exact"
	// ByNumber compares numbers in any notation, and text if the target is not a number. "numeric:0.01" sets an
	// absolute tolerance, "numeric:1%" one relative to the target.
	ByNumber = "numeric"
	// ByFormula compares as the scorer of the Formula tasks does (ACE, arXiv:2510.04618): numbers after removing commas,
	// else the text, so "$5" is not 5.
	ByFormula = "formula"
	// ByList compares comma-separated entries by position, ignoring case and white space. The score is the share of
	// correct entries; a missing or additional entry is wrong. "list:ignore-extra" ignores additional entries, as the
	// scorer of FiNER does (ACE, arXiv:2510.04618).
	ByList = "list"
	// ByTags is ByList with the option that ignores additional entries.
	ByTags = ByList + ":ignore-extra"
	// ByPattern matches the whole answer, without surrounding white space, against the target, a regular expression
	// (RE2). "regex:search" accepts a match anywhere in the answer.
	ByPattern = "regex"
	// ByJSON compares JSON values: numbers by value, keys in any order, without a surrounding Markdown fence.
	ByJSON = "json"
	// BySteps compares a number that is computed in steps. The target is JSON:
	//
	//	{"answer": "96.50", "steps": [{"name": "region tax", "amount": "12.60"}]}
	//
	// The answer decides between success and failure. If it is wrong, the lines "name: amount" of the reasoning are
	// compared with the steps. The feedback names the first wrong step and its expected amount, without a reason.
	//
	// The score of a wrong answer is half the share of the correct steps before the first wrong one. So it
	// distinguishes partial progress, but stays well below the score of a correct answer. If they were close, a few
	// wrong scores could reverse the order of averages.
	BySteps = "steps"
	// ByProgram is the prefix of an outside program's name, see Program.
	ByProgram = events.ProgramEvaluator
)

// EvaluatorSyntax lists the syntax of all evaluators, for help and error texts.
const EvaluatorSyntax = "default, exact, numeric, numeric:TOLERANCE, numeric:PERCENT%, list, list:ignore-extra, regex, regex:search, json, steps, formula (removes only commas), judge (a model with a rubric), program:NAME"

// ErrNotScorable reports an unknown evaluator, a missing model of a judge, or a target that is invalid for its evaluator. A retry
// returns the same error.
var ErrNotScorable = errors.New("task cannot be scored")

// Answer is the answer to score.
type Answer struct {
	Reasoning string
	Final     string // empty means a wrong answer
	question  string // set by Evaluate
}

// method compares an answer with a target. The target is not empty.
type method func(target string, a Answer) (events.Outcome, error)

// findMethod returns the method of an evaluator. It is nil for a program, which scoreWithProgram runs. An unknown evaluator gives ErrNotScorable.
func findMethod(evaluator string) (method, error) {
	kind, option, _ := strings.Cut(evaluator, ":")
	switch {
	case evaluator == "", evaluator == ByDefault:
		return scoreDefault, nil
	case evaluator == ByFormula:
		return scoreFormula, nil
	case evaluator == ByText:
		return passOrFail(equalText), nil
	case evaluator == ByNumber:
		return passOrFail(equalNumber), nil
	case kind == ByNumber:
		t, err := parseTolerance(option)
		if err != nil {
			return nil, fmt.Errorf("%w: evaluator %q: %w", ErrNotScorable, evaluator, err)
		}
		return passOrFail(t.equal), nil
	case evaluator == ByList:
		return scoreList, nil
	case evaluator == ByTags:
		return func(target string, a Answer) (events.Outcome, error) {
			a.Final = firstEntries(a.Final, len(splitList(target)))
			return scoreList(target, a)
		}, nil
	case evaluator == ByPattern:
		return scorePattern(true), nil // matches the whole answer
	case evaluator == ByPattern+":search":
		return scorePattern(false), nil // matches anywhere
	case evaluator == ByJSON:
		return scoreJSON, nil
	case evaluator == BySteps:
		return scoreSteps, nil
	case evaluator == ByJudge:
		return needsModel, nil
	case strings.HasPrefix(evaluator, ByProgram) && programName.MatchString(option):
		return nil, nil
	}
	return nil, fmt.Errorf("%w: unknown evaluator %q: want one of %s", ErrNotScorable, evaluator, EvaluatorSyntax)
}

// needsModel is the method of ByJudge. It returns an error, because only Scorer.Judge asks a judge.
func needsModel(string, Answer) (events.Outcome, error) {
	return events.Outcome{}, errors.New("only a generator asks a judge")
}

// Check returns ErrNotScorable for an unknown evaluator. It accepts every program name, unlike Scorer.Check.
func Check(evaluator string) error {
	_, err := findMethod(evaluator)
	return err
}

// CanScore reports whether a task has a target, or an evaluator that works without one.
func CanScore(t *events.Task) bool {
	return t.Target != "" || events.WorksWithoutTarget(t.Evaluator)
}

// Evaluate scores an answer without outside programs. Without a target the outcome is unknown.
func Evaluate(t *events.Task, a Answer) (events.Outcome, error) {
	return (*Scorer)(nil).Evaluate(context.Background(), t, a, nil)
}

// Scorer scores answers, also with outside programs. A nil Scorer has no programs. It is safe for concurrent use.
type Scorer struct {
	programs map[string]Program
	cfg      Config
	slots    chan struct{} // holds one element for each program that runs
	judge    chat.Model    // nil without a model
}

// NewScorer returns a Scorer that runs at most maxParallel programs at a time.
func NewScorer(cfg Config, maxParallel int) *Scorer {
	s := &Scorer{programs: make(map[string]Program), cfg: cfg.WithDefaults(), slots: make(chan struct{}, max(maxParallel, 1))}
	for _, p := range cfg.Programs {
		s.programs[p.Name] = p
	}
	return s
}

// Check returns ErrNotScorable for an unknown evaluator, or a program that is not configured.
func (s *Scorer) Check(evaluator string) error {
	m, err := findMethod(evaluator)
	if err != nil || m != nil {
		return err
	}
	_, err = s.findProgram(evaluator)
	return err
}

// Evaluate scores an answer. Without a target the outcome is unknown, unless the evaluator is a program. If a program
// fails, the outcome is unknown and contains the reason; the end of its standard error is logged. The returned error
// is ErrNotScorable or the error of ctx.
func (s *Scorer) Evaluate(ctx context.Context, t *events.Task, a Answer, log *zerolog.Logger) (events.Outcome, error) {
	m, err := findMethod(t.Evaluator)
	if err != nil {
		return events.Outcome{}, err
	}
	if m == nil {
		p, err := s.findProgram(t.Evaluator)
		if err != nil {
			return events.Outcome{}, err
		}
		return s.scoreWithProgram(ctx, p, t, a, log)
	}
	if t.Target == "" {
		return events.Outcome{Label: events.Unknown}, nil
	}
	a.question = t.Question
	o, err := m(t.Target, a)
	if err != nil {
		return events.Outcome{}, fmt.Errorf("%w: target of evaluator %s: %w", ErrNotScorable, t.Evaluator, err)
	}
	o.By = cmp.Or(t.Evaluator, ByDefault)
	return o, nil
}

// correct returns the outcome of a correct answer.
func correct() events.Outcome {
	return events.Outcome{Score: 1, Label: events.Success, Feedback: "The answer is right."}
}

// incorrect returns the outcome of a wrong answer.
func incorrect(format string, args ...any) events.Outcome {
	return events.Outcome{Label: events.Failure, Feedback: twoStops.ReplaceAllString(fmt.Sprintf(format, args...), "$1.$2")}
}

// twoStops matches the full stop of a quoted answer followed by the full stop of the sentence.
var twoStops = regexp.MustCompile(`([^.])\.\.( |$)`)

// passOrFail returns a method that scores 1 or 0: same compares the answer, and also the X of the answer "The answer is X."
func passOrFail(same func(answer, target string) bool) method {
	return func(target string, a Answer) (events.Outcome, error) {
		right := same(a.Final, target)
		if said, ok := statedAnswer(a.Final); ok && !right {
			right = same(said, target) || same(said+".", target) // the full stop belongs to the sentence or, as in "U.S.", to X
		}
		return decide(right, target, a)
	}
}

// scoreDefault is the method of ByDefault.
func scoreDefault(target string, a Answer) (events.Outcome, error) {
	return decide(outcome.Same(a.question, target, a.Final), target, a)
}

// scoreFormula is the method of ByFormula.
func scoreFormula(target string, a Answer) (events.Outcome, error) {
	x, errx := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(a.Final), ",", ""), 64)
	y, erry := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(target), ",", ""), 64)
	right := a.Final == target
	if errx == nil && erry == nil {
		right = x == y
	}
	return decide(right, target, a)
}

// decide returns the outcome of a right or a wrong answer.
func decide(right bool, target string, a Answer) (events.Outcome, error) {
	if right {
		return correct(), nil
	}
	return incorrect("The answer is wrong: expected %s, got %s.", shortText(target), shortText(a.Final)), nil
}

// answerSentence matches an answer that is one sentence of this form.
var answerSentence = regexp.MustCompile(`(?i)^[*_"]*the (?:final |correct )?answer is[*_]*:?[*_]* +([^\n]+?)[*_"]*\.?[*_"]*$`)

// statedAnswer returns X for the answer "The answer is X.", and false for other answers.
func statedAnswer(answer string) (said string, ok bool) {
	m := answerSentence.FindStringSubmatch(strings.TrimSpace(answer))
	if m == nil {
		return "", false
	}
	return strings.Trim(m[1], "*_\"'`"), true
}

// scorePattern returns the method of ByPattern. If whole is true, the pattern must match the whole answer.
func scorePattern(whole bool) method {
	return func(target string, a Answer) (events.Outcome, error) {
		re, err := regexp.Compile(target) // first alone: the group below could hide an error in its brackets
		if err == nil && whole {
			re, err = regexp.Compile(`\A(?:` + target + `)\z`)
		}
		if err != nil {
			return events.Outcome{}, err
		}
		if re.MatchString(strings.TrimSpace(a.Final)) {
			return correct(), nil
		}
		return incorrect("The answer is wrong: expected a match of %s, got %s.", shortText(target), shortText(a.Final)), nil
	}
}

// maxWrongEntries is the maximum number of wrong entries that the feedback on a list names.
const maxWrongEntries = 5

// scoreList is the method of ByList.
func scoreList(target string, a Answer) (events.Outcome, error) {
	want, got := splitList(target), splitList(a.Final)
	right, more := 0, 0
	var wrong []string // descriptions of the first wrong entries; more is the number of the others
	for i := range max(len(want), len(got)) {
		isRight := i < min(len(want), len(got)) && strings.EqualFold(want[i], got[i])
		switch {
		case isRight:
			right++
		case len(wrong) == maxWrongEntries:
			more++
		default:
			wrong = append(wrong, fmt.Sprintf("number %d: expected %s, got %s", i+1, shortText(elementAt(want, i)), shortText(elementAt(got, i))))
		}
	}
	if len(wrong) == 0 {
		return correct(), nil
	}
	score := float64(right) / float64(max(len(want), len(got)))
	o := events.Outcome{Score: score, Label: events.LabelOf(score)}
	if more > 0 {
		wrong = append(wrong, fmt.Sprintf("and %d more", more))
	}
	o.Feedback = fmt.Sprintf("%d of %d entries are right, %d were given. Wrong entries: %s.", right, len(want), len(got), strings.Join(wrong, "; "))
	return o, nil
}

// firstEntries returns the first n entries of a list.
func firstEntries(text string, n int) string {
	list := splitList(text)
	return strings.Join(list[:min(n, len(list))], ",")
}

// splitList splits a list into its entries. Blank text has no entries. A comma after the last entry begins no further one.
func splitList(text string) []string {
	text = strings.TrimSuffix(strings.TrimSpace(text), ",")
	if text == "" {
		return nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// elementAt returns an entry of a list, or "" beyond its end.
func elementAt(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// equalText compares texts without surrounding white space.
func equalText(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// shortText shortens a text for a line of feedback. It returns "nothing" for blank text.
func shortText(s string) string {
	const limit = 200
	return cmp.Or(text.Line(s, limit), "nothing")
}

// tolerance is the allowed difference: an absolute one plus one relative to the target.
type tolerance struct{ absolute, relative float64 }

// parseTolerance parses the option of ByNumber.
func parseTolerance(option string) (t tolerance, err error) {
	number, isPercentage := strings.CutSuffix(option, "%")
	x, ok := parseNumber(number)
	if !ok || x < 0 {
		return t, fmt.Errorf("tolerance: want a number such as 0.01, or a percentage such as 1%%, got %q", option)
	}
	if isPercentage {
		return tolerance{relative: x / 100}, nil
	}
	return tolerance{absolute: x}, nil
}

// equal compares numbers, or texts if one of the two is not a number.
func (t tolerance) equal(answer, target string) bool {
	x, okx := parseNumber(answer)
	y, oky := parseNumber(target)
	if !okx || !oky {
		return equalText(answer, target)
	}
	if x == y {
		return true
	}
	allowed := t.absolute + t.relative*math.Abs(y)
	// The extra 1e-12 allows for binary rounding of decimals: 1.3 is within 0.1 of 1.2.
	return allowed > 0 && math.Abs(x-y) <= allowed+1e-12*max(math.Abs(x), math.Abs(y))
}

// equalNumber compares amounts without a tolerance.
func equalNumber(a, b string) bool { return tolerance{}.equal(a, b) }

var amountMarks = strings.NewReplacer(",", "", "$", "", "€", "", "£", "", "¥", "", "USD", "", "EUR", "", "GBP", "", "CHF", "", "−", "-")

// grouped matches a number with commas between groups of digits: thousands, or lakhs as in 12,34,567. In "3,14" and "1,2" the comma has another
// meaning.
var grouped = regexp.MustCompile(`^[^\d,]*\d{1,3}(?:,\d{2,3})*,\d{3}(?:[^\d,][^,]*)?$`)

// parseNumber parses an amount with thousands separators and currency symbols, also in bold or as code.
func parseNumber(s string) (float64, bool) {
	if strings.Contains(s, ",") && !grouped.MatchString(s) {
		return 0, false
	}
	s = strings.TrimSpace(amountMarks.Replace(strings.Trim(s, "*_` \n")))
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false // ParseFloat also accepts hexadecimal numbers and infinities
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil // an overflow is an error
}

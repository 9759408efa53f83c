// Package scoring says how good answers are. A task names its evaluator as text, and everybody who reads tasks, wherever
// they come from, asks this package whether it can be. An answer is compared as data: nothing in it is executed, and a
// task picks an outside program by name alone, among those that whoever runs the generator has named.
package scoring

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"debrief/events"
)

// The evaluators that a task can name. A task with a target and no evaluator gets ByText.
const (
	// ByText asks for the target's text, white space around it aside.
	ByText = "exact"
	// ByNumber asks for the target's number however it is written, or its text where it is none. With "numeric:0.01" a
	// number may be off by so much, with "numeric:1%" by such a part of the target.
	ByNumber = "numeric"
	// ByList asks for the target's entries, which commas part, each in its place, case and white space aside. The score
	// is the share that is right; an entry too many or too few is a wrong one. FiNER is scored so (ACE,
	// arXiv:2510.04618).
	ByList = "list"
	// ByPattern asks for an answer that the target, a regular expression (RE2), matches as a whole, white space around it
	// aside; with "regex:search", for one that it matches somewhere.
	ByPattern = "regex"
	// ByJSON asks for the target's JSON value: numbers by value, keys in any order, a Markdown fence around it aside.
	ByJSON = "json"
	// BySteps asks for a number that is reached in steps. The target is JSON:
	//
	//	{"answer": "96.50", "steps": [{"name": "region tax", "amount": "12.60"}]}
	//
	// The answer decides. When it is wrong, the lines "name: amount" of the reasoning are held against the steps, and
	// the feedback names the first that is off with the result it should have had; never why. The score of a wrong
	// answer is half the share of the steps before that one: an answer that got further is told from one that did not,
	// it stays a failure, and is worth well under a right one. Were the two close, a few verdicts that are wrong
	// themselves would turn them around on average.
	BySteps = "steps"
	// ByProgram, with a name behind it, asks an outside program: see Program.
	ByProgram = events.ProgramEvaluator
)

// Forms are the evaluators as people write them, for help and for errors.
const Forms = "exact, numeric, numeric:TOLERANCE, numeric:PERCENT%, list, regex, regex:search, json, steps, program:NAME"

// ErrUnjudgeable is returned when a task names an evaluator that does not exist or a target that its evaluator cannot
// read. Asking again changes neither.
var ErrUnjudgeable = errors.New("task cannot be judged")

// Answer is what is judged.
type Answer struct {
	Reasoning string
	Final     string // empty where there is none, which is wrong
}

// method holds an answer against a target that is not empty.
type method func(target string, a Answer) (events.Outcome, error)

// methodOf is the one that an evaluator's name stands for, nil for a program's.
func methodOf(evaluator string) (method, error) {
	kind, option, optional := strings.Cut(evaluator, ":")
	switch {
	case evaluator == "", evaluator == ByText:
		return whether(sameText), nil
	case kind == ByNumber:
		t, err := parseTolerance(option, optional)
		if err != nil {
			return nil, fmt.Errorf("%w: evaluator %q: %w", ErrUnjudgeable, evaluator, err)
		}
		return whether(t.same), nil
	case evaluator == ByList:
		return judgeList, nil
	case evaluator == ByPattern:
		return judgePattern(true), nil
	case evaluator == ByPattern+":search":
		return judgePattern(false), nil
	case evaluator == ByJSON:
		return judgeJSON, nil
	case evaluator == BySteps:
		return judgeSteps, nil
	case strings.HasPrefix(evaluator, ByProgram) && programName.MatchString(option):
		return nil, nil
	}
	return nil, fmt.Errorf("%w: evaluator %q is none of %s", ErrUnjudgeable, evaluator, Forms)
}

// Check returns ErrUnjudgeable for what names no evaluator. Which programs there are it does not know; see Judge.Check.
func Check(evaluator string) error {
	_, err := methodOf(evaluator)
	return err
}

// CanJudge reports whether anybody can say how good an answer to a task is.
func CanJudge(t *events.Task) bool {
	return t.Target != "" || strings.HasPrefix(t.Evaluator, ByProgram)
}

// Evaluate says how good an answer to a task is, without any program. Without a target nobody knows.
func Evaluate(t *events.Task, a Answer) (events.Outcome, error) {
	return (*Judge)(nil).Evaluate(context.Background(), t, a, nil)
}

// Judge says how good answers are, and knows programs to ask. Nil is one who knows none. It is safe for concurrent use.
type Judge struct {
	programs map[string]Program
	cfg      Config
	slots    chan struct{}
}

// NewJudge is a judge who runs at most so many programs at the same time.
func NewJudge(cfg Config, atOnce int) *Judge {
	j := &Judge{programs: make(map[string]Program), cfg: cfg.WithDefaults(), slots: make(chan struct{}, max(atOnce, 1))}
	for _, p := range cfg.Programs {
		j.programs[p.Name] = p
	}
	return j
}

// Check returns ErrUnjudgeable for what names no evaluator, or a program that this judge does not know.
func (j *Judge) Check(evaluator string) error {
	m, err := methodOf(evaluator)
	if err != nil || m != nil {
		return err
	}
	_, err = j.program(evaluator)
	return err
}

// Evaluate says how good an answer to a task is. Without a target nobody knows, save for a program, which may know by
// itself. What a program fails at is not the answer's fault: the outcome is unknown and says why, and the end of what the
// program wrote to its standard error is logged. An error is ErrUnjudgeable, or that the context ended.
func (j *Judge) Evaluate(ctx context.Context, t *events.Task, a Answer, log *zerolog.Logger) (events.Outcome, error) {
	m, err := methodOf(t.Evaluator)
	if err != nil {
		return events.Outcome{}, err
	}
	if m == nil {
		p, err := j.program(t.Evaluator)
		if err != nil {
			return events.Outcome{}, err
		}
		return j.ask(ctx, p, t, a, log)
	}
	if t.Target == "" {
		return events.Outcome{Label: events.Unknown}, nil
	}
	o, err := m(t.Target, a)
	if err != nil {
		return events.Outcome{}, fmt.Errorf("%w: target of evaluator %s: %w", ErrUnjudgeable, t.Evaluator, err)
	}
	if o.By = t.Evaluator; o.By == "" {
		o.By = ByText
	}
	return o, nil
}

// right is the outcome of a right answer.
func right() events.Outcome {
	return events.Outcome{Score: 1, Label: events.Success, Feedback: "The answer is right."}
}

// wrong is that of a wrong one.
func wrong(format string, args ...any) events.Outcome {
	return events.Outcome{Label: events.Failure, Feedback: fmt.Sprintf(format, args...)}
}

// whether is the method that only tells right from wrong.
func whether(same func(answer, target string) bool) method {
	return func(target string, a Answer) (events.Outcome, error) {
		if same(a.Final, target) {
			return right(), nil
		}
		return wrong("The answer is wrong: expected %s, got %s.", briefly(target), briefly(a.Final)), nil
	}
}

func judgePattern(whole bool) method {
	return func(target string, a Answer) (events.Outcome, error) {
		re, err := regexp.Compile(target)
		if err == nil && whole {
			re, err = regexp.Compile(`\A(?:` + target + `)\z`)
		}
		if err != nil {
			return events.Outcome{}, err
		}
		if re.MatchString(strings.TrimSpace(a.Final)) {
			return right(), nil
		}
		return wrong("The answer is wrong: expected what %s matches, got %s.", briefly(target), briefly(a.Final)), nil
	}
}

func judgeList(target string, a Answer) (events.Outcome, error) {
	want, got := entries(target), entries(a.Final)
	good, off := 0, -1
	for i := range max(len(want), len(got)) {
		if i < min(len(want), len(got)) && strings.EqualFold(want[i], got[i]) {
			good++
		} else if off < 0 {
			off = i
		}
	}
	if off < 0 {
		return right(), nil
	}
	score := float64(good) / float64(max(len(want), len(got)))
	o := events.Outcome{Score: score, Label: events.LabelOf(score)}
	o.Feedback = fmt.Sprintf("%d of %d entries are right, of %d that were given. The first that is off is number %d: expected %s, got %s.",
		good, len(want), len(got), off+1, briefly(at(want, off)), briefly(at(got, off)))
	return o, nil
}

// entries are the parts of a list. No text has none.
func entries(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func sameText(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// briefly is text for a line of feedback.
func briefly(s string) string {
	const most = 200
	if s = strings.Join(strings.Fields(s), " "); s == "" {
		return "nothing"
	}
	return strings.ToValidUTF8(events.Beginning(s, most), "")
}

// tolerance is how far a number may be off: so much, and such a part of the target.
type tolerance struct{ absolute, relative float64 }

func parseTolerance(text string, given bool) (t tolerance, err error) {
	if !given {
		return t, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	x, ok := parseNumber(number)
	if !ok || x < 0 {
		return t, fmt.Errorf("tolerance: want a number such as 0.01, or a part such as 1%%, got %q", text)
	}
	if percent {
		return tolerance{relative: x / 100}, nil
	}
	return tolerance{absolute: x}, nil
}

// same compares numbers, and texts where one of the two is no number.
func (t tolerance) same(answer, target string) bool {
	x, okx := parseNumber(answer)
	y, oky := parseNumber(target)
	if !okx || !oky {
		return sameText(answer, target)
	}
	if x == y {
		return true
	}
	allowed := t.absolute + t.relative*abs(y)
	// A decimal on the border, 1.3 for 1.2 give or take 0.1, is not past it because floats are binary.
	return allowed > 0 && abs(x-y) <= allowed+1e-12*max(abs(x), abs(y))
}

func abs(x float64) float64 { return max(x, -x) }

func sameNumber(a, b string) bool { return tolerance{}.same(a, b) }

var decoration = strings.NewReplacer(",", "", "$", "", "€", "", "£", "", "¥", "", "USD", "", "EUR", "", "GBP", "", "CHF", "", "−", "-")

// parseNumber reads an amount as people write it: with commas between the thousands, with a currency around it.
func parseNumber(s string) (float64, bool) {
	s = strings.TrimSpace(decoration.Replace(s))
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false // what ParseFloat takes beyond decimals: hexadecimal, infinities
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil // an infinity is an error
}

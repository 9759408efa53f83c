package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"debrief/events"
)

// The evaluators that a task can name. A task with a target and no evaluator gets ByText.
const (
	// ByText asks for the target's text, white space around it aside.
	ByText = "exact"
	// ByNumber asks for the target's number however it is written, or its text where it is none.
	ByNumber = "numeric"
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
)

// ErrUnjudgeable is returned when a task names an evaluator that does not exist or a target that its evaluator cannot
// read. Asking again changes neither.
var ErrUnjudgeable = errors.New("task cannot be judged")

// Evaluate says how good an answer to a task is. Without a target nobody knows. The answer is compared as data and
// nothing in it is executed.
func Evaluate(t *events.Task, a Answer) (events.Outcome, error) {
	if t.Target == "" && t.Evaluator == "" {
		return events.Outcome{Label: events.Unknown}, nil
	}
	switch t.Evaluator {
	case "", ByText:
		return judge(t, ByText, a.Final, sameText), nil
	case ByNumber:
		return judge(t, ByNumber, a.Final, sameNumber), nil
	case BySteps:
		return judgeSteps(t, a)
	}
	return events.Outcome{}, fmt.Errorf("%w: evaluator %q is none of %s, %s, %s", ErrUnjudgeable, t.Evaluator, ByText, ByNumber, BySteps)
}

func judge(t *events.Task, by, answer string, same func(a, b string) bool) events.Outcome {
	switch {
	case t.Target == "":
		return events.Outcome{Label: events.Unknown}
	case same(answer, t.Target):
		return events.Outcome{Score: 1, Label: events.Success, Feedback: "The answer is right.", By: by}
	}
	return events.Outcome{
		Label: events.Failure, By: by,
		Feedback: fmt.Sprintf("The answer is wrong: expected %s, got %s.", briefly(t.Target), briefly(answer)),
	}
}

// stepTarget is the target of BySteps.
type stepTarget struct {
	Answer string `json:"answer"`
	Steps  []struct {
		Name   string `json:"name"`
		Amount string `json:"amount"`
	} `json:"steps"`
}

func judgeSteps(t *events.Task, a Answer) (events.Outcome, error) {
	if t.Target == "" {
		return events.Outcome{Label: events.Unknown}, nil
	}
	var want stepTarget
	if err := json.Unmarshal([]byte(t.Target), &want); err != nil {
		return events.Outcome{}, fmt.Errorf("%w: target of evaluator %s: %w", ErrUnjudgeable, BySteps, err)
	}
	if want.Answer == "" {
		return events.Outcome{}, fmt.Errorf("%w: target of evaluator %s: answer: is empty", ErrUnjudgeable, BySteps)
	}
	if sameNumber(a.Final, want.Answer) {
		return events.Outcome{Score: 1, Label: events.Success, Feedback: "The answer is right.", By: BySteps}, nil
	}
	feedback := fmt.Sprintf("The answer is wrong: expected %s, got %s.", briefly(want.Answer), briefly(a.Final))
	got := stepAmounts(a.Reasoning)
	for i, s := range want.Steps {
		amount, there := got[stepName(s.Name)]
		if there && sameNumber(amount, s.Amount) {
			continue
		}
		return events.Outcome{
			Score: float64(i) / float64(2*len(want.Steps)), Label: events.Failure, By: BySteps,
			Feedback: fmt.Sprintf("%s First step that is off: %s: expected %s, got %s.", feedback, s.Name, s.Amount, briefly(amount)),
		}, nil
	}
	return events.Outcome{
		Score: 0.5, Label: events.Failure, By: BySteps,
		Feedback: feedback + " Every step is right, what was made of them is not.",
	}, nil
}

// stepAmounts are the lines "name: amount" of a reasoning. Of a name that comes twice the last counts: the model thought
// again.
func stepAmounts(reasoning string) map[string]string {
	got := make(map[string]string)
	for line := range strings.Lines(reasoning) {
		i := strings.LastIndexByte(line, ':')
		if i < 0 {
			continue
		}
		amount := strings.Trim(line[i+1:], " \t\r\n*_`.,;")
		if _, ok := parseNumber(amount); ok {
			got[stepName(line[:i])] = amount
		}
	}
	return got
}

var listMark = regexp.MustCompile(`^(?:[-*+•]+|\d+[.)])\s*`)

// stepName is a step's name without the case, list marks and emphasis that models put around it.
func stepName(s string) string {
	s = listMark.ReplaceAllString(strings.TrimSpace(s), "")
	return strings.ToLower(strings.Trim(s, " \t*_`\""))
}

func sameText(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

func sameNumber(a, b string) bool {
	x, okx := parseNumber(a)
	y, oky := parseNumber(b)
	if okx && oky {
		return x == y
	}
	return sameText(a, b)
}

var decoration = strings.NewReplacer(",", "", "$", "", "€", "", "£", "", "¥", "", "USD", "", "EUR", "", "GBP", "", "CHF", "", "−", "-")

// parseNumber reads an amount as people write it: with commas between the thousands, with a currency around it.
func parseNumber(s string) (float64, bool) {
	s = strings.TrimSpace(decoration.Replace(s))
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false // what ParseFloat takes beyond decimals: hexadecimal, infinities
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// briefly is text for a line of feedback.
func briefly(s string) string {
	const most = 200
	switch s = strings.Join(strings.Fields(s), " "); {
	case s == "":
		return "nothing"
	case len(s) > most:
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

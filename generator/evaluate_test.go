package generator

import (
	"errors"
	"math"
	"strings"
	"testing"

	"debrief/events"
)

func TestEvaluate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, evaluator, target, answer string
		want                            events.Label
	}{
		{"no target", "", "", "42", events.Unknown},
		{"no target for an evaluator", BySteps, "", "42", events.Unknown},
		{"text is the default", "", "Paris", " Paris\n", events.Success},
		{"text is compared as it is", ByText, "42", "42.0", events.Failure},
		{"case counts", ByText, "Paris", "paris", events.Failure},
		{"no answer is wrong", ByText, "Paris", "", events.Failure},
		{"numbers however written", ByNumber, "1234.50", "$1,234.5", events.Success},
		{"a currency behind the number", ByNumber, "12", "12.00 EUR", events.Success},
		{"a typographic minus", ByNumber, "-3", "−3", events.Success},
		{"another number", ByNumber, "12", "12.01", events.Failure},
		{"text where there is no number", ByNumber, "none", "none", events.Success},
		{"a list is no number", ByNumber, "12", "1, 2", events.Failure},
		{"NaN is no number", ByNumber, "NaN", "nan", events.Failure},
		{"infinity is no number", ByNumber, "1e999", "2e999", events.Failure},
		{"hexadecimal is text", ByNumber, "16", "0x10", events.Failure},
		{"an expression is not worked out", ByNumber, "4", "2+2", events.Failure},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Evaluate(&events.Task{Target: test.target, Evaluator: test.evaluator}, Answer{Final: test.answer})
			if err != nil || got.Label != test.want {
				t.Fatalf("got %+v, %v, want %s", got, err, test.want)
			}
			if (got.Score == 1) != (test.want == events.Success) || (got.By == "") != (test.want == events.Unknown) {
				t.Errorf("got %+v, want a score and an author that go with the label", got)
			}
		})
	}
}

const stepsTarget = `{"answer":"96.50","steps":[{"name":"goods","amount":"100.00"},{"name":"tier discount","amount":"-16.10"},{"name":"region tax","amount":"12.60"}]}`

func TestEvaluateSteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, reasoning, answer, feedback string
		score                             float64
	}{
		{"right, however it came about", "", "96.5", "The answer is right.", 1},
		{
			"the first step that is off", "goods: 100.00\ntier discount: -16.10\nregion tax: 0.00\n", "83.90",
			"The answer is wrong: expected 96.50, got 83.90. First step that is off: region tax: expected 12.60, got 0.00.", 1.0 / 3,
		},
		{
			"the first of two", "goods: 100.00\ntier discount: 0.00\nregion tax: 0.00", "100.00",
			"The answer is wrong: expected 96.50, got 100.00. First step that is off: tier discount: expected -16.10, got 0.00.", 1.0 / 6,
		},
		{
			"a step that is missing", "goods: 100\nregion tax: 12.60", "",
			"The answer is wrong: expected 96.50, got nothing. First step that is off: tier discount: expected -16.10, got nothing.", 1.0 / 6,
		},
		{
			"lines as models write them", "1. **Goods**: 100.00\n- Tier Discount: −16.10 EUR\n* region tax: $1.00\nregion tax: soon", "83",
			"The answer is wrong: expected 96.50, got 83. First step that is off: region tax: expected 12.60, got $1.00.", 1.0 / 3,
		},
		{
			"the last word on a step counts", "goods: 1\ngoods: 100.00\ntier discount: -16.10\nregion tax: 1\nregion tax: 12.60", "9",
			"The answer is wrong: expected 96.50, got 9. Every step is right, what was made of them is not.", 0.5,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Evaluate(&events.Task{Target: stepsTarget, Evaluator: BySteps}, Answer{Reasoning: test.reasoning, Final: test.answer})
			if err != nil || got.Feedback != test.feedback || got.Score != test.score || (got.Score == 1) != (got.Label == events.Success) {
				t.Errorf("got %+v, %v, want %q and %.2f", got, err, test.feedback, test.score)
			}
		})
	}
}

func TestWhatCannotBeJudged(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]events.Task{
		"unknown evaluator":               {Target: "1", Evaluator: "vibes"},
		"unknown evaluator, no target":    {Evaluator: "vibes"},
		"target of steps is no JSON":      {Target: "96.50", Evaluator: BySteps},
		"target of steps has no answer":   {Target: `{"steps":[]}`, Evaluator: BySteps},
		"target of steps is another JSON": {Target: `{"answer":96.5}`, Evaluator: BySteps},
	} {
		if _, err := Evaluate(&task, Answer{Final: "1"}); !errors.Is(err, ErrUnjudgeable) {
			t.Errorf("%s: got %v, want ErrUnjudgeable", name, err)
		}
	}
}

func FuzzEvaluate(f *testing.F) {
	f.Add("goods: 100", "96.50", "96.5")
	f.Add("::::\n-:-", "NaN", "1e400")
	f.Fuzz(func(t *testing.T, reasoning, final, target string) {
		for _, evaluator := range []string{"", ByText, ByNumber, BySteps} {
			o, err := Evaluate(&events.Task{Target: target, Evaluator: evaluator}, Answer{Reasoning: reasoning, Final: final})
			if err == nil && (math.IsNaN(o.Score) || o.Score < 0 || o.Score > 1 || o.Label == "" || (o.Score == 1) != (o.Label == events.Success)) {
				t.Errorf("%s: got %+v", evaluator, o)
			}
		}
		if o, err := Evaluate(&events.Task{Target: stepsTarget, Evaluator: BySteps}, Answer{Reasoning: reasoning, Final: final}); err != nil || strings.Contains(o.Feedback, "\n") {
			t.Errorf("got %+v, %v, want one line of feedback", o, err)
		}
	})
}

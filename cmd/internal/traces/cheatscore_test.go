package traces

import (
	"math"
	"strings"
	"testing"
)

func TestCheatsheetScorers(t *testing.T) {
	t.Parallel()
	const (
		question = "Which is blue?\n\nOptions:\n(A) the grass\n(B) the sky\n(C) the sun\n"
		game     = "Let's play a game called 24."
	)
	for _, tt := range []struct {
		input, raw, target string
		right, wrong       []string
	}{
		{"How many?", "", "1204", []string{"1204", "1,204", "1204.", " 1204 "}, []string{"204", "1204 apples", "", "12 04"}},
		{"Who?", "", "the sky", []string{"The Sky.", "\"the sky\"", "the\nsky"}, []string{"sky"}},
		{question, "", "(B)", []string{"(B)", "B", "b.", "`B`", "(B).", "The answer is B", "Option B.", "the sky", "B) The sky"}, []string{"A", "", "(C)", "the sun", "AB", "Berlin"}},
		{"Balance.", "", "1 + 2 * 3 = 7", []string{"1 + 2 * 3 = 7", "1+2*3", "1 + 2 * 3"}, []string{"1 * 2 + 3", "2 + 1 * 3", "1 + 2 * 3 * 1", "7", "x"}},
		{game, "4 7 8 8", "24", []string{"(7 - (8 / 8)) * 4 = 24", "(7 - 8 ÷ 8) × 4", "The answer is (7 - (8/8)) * 4"}, []string{"4 * 6", "7 + 8 + 8 + 1", "24 = 24", "(7 - (8 / 8) * 4"}},
	} {
		for _, answer := range tt.right {
			r := &cheatResult{Input: tt.input, RawInput: tt.raw, Target: tt.target, FinalAnswer: answer}
			if right, scorer := r.score(); !right {
				t.Errorf("%q for %q: is wrong for %s", answer, tt.target, scorer)
			}
		}
		for _, answer := range tt.wrong {
			r := &cheatResult{Input: tt.input, RawInput: tt.raw, Target: tt.target, FinalAnswer: answer}
			if right, scorer := r.score(); right {
				t.Errorf("%q for %q: is right for %s", answer, tt.target, scorer)
			}
		}
	}
	if _, report, _ := read(t, "f", `{"input":"q","target":"1,204","final_answer":"1204","steps":[]}`); len(report.Scorers) != 1 || !strings.Contains(report.Scorers[0], "scorer for texts") {
		t.Errorf("got scorers %q", report.Scorers)
	}
}

func TestArithmetic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"1+2*3": 7, "(1 + 2) * 3": 9, "-2 - -3": 1, "8/4/2": 1, ".5*4": 2, "((7))": 7} {
		if got, err := arithmetic(text); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: got %v, error %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1+", "(1", "1)", "1/0", "x", "1 2", "1 2 x", "1..2", strings.Repeat("(", 400), strings.Repeat("1+", 1000) + "1"} {
		if got, err := arithmetic(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func FuzzCheatsheetScorers(f *testing.F) {
	f.Add("game called 24", "4 7 8 8", "24", "(7-8/8)*4=24")
	f.Add("Options:\n(A) x", "", "(A)", "x")
	f.Add("q", "", "1+2=3", "1 + 2")
	f.Fuzz(func(t *testing.T, input, raw, target, answer string) {
		r := &cheatResult{Input: input, RawInput: raw, Target: target, FinalAnswer: answer}
		if _, scorer := r.score(); scorer == "" {
			t.Error("no scorer")
		}
		r.FinalAnswer = target
		if right, scorer := r.score(); !right {
			t.Errorf("the target %q is wrong for %s", target, scorer)
		}
	})
}

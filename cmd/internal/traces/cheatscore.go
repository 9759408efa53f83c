package traces

import (
	"math"
	"regexp"
	"slices"
	"strings"
)

// cheatScorer is a scorer of Dynamic Cheatsheet. A results file does not name its benchmark, so the scorer is chosen by the
// question and the target.
type cheatScorer struct {
	name    string
	matches func(r *cheatResult) bool
	right   func(r *cheatResult) bool
}

var cheatScorers = []cheatScorer{
	{"Dynamic Cheatsheet's scorer for Game of 24: the value is 24, from the given numbers", isGameOf24, rightGameOf24},
	{"Dynamic Cheatsheet's scorer for equations: the same numbers in the same order, and the value of the target", isEquation, rightEquation},
	{"Dynamic Cheatsheet's scorer for multiple choice: the letter or the text of the option", isChoice, rightChoice},
	{"Dynamic Cheatsheet's scorer for texts: equal without punctuation and case", func(*cheatResult) bool { return true }, rightText},
}

// score returns whether the answer is right, and the name of the scorer.
func (r *cheatResult) score() (right bool, scorer string) {
	for _, s := range cheatScorers {
		if s.matches(r) {
			return strings.TrimSpace(r.FinalAnswer) == strings.TrimSpace(r.Target) || s.right(r), s.name
		}
	}
	return false, ""
}

var (
	fourNumbers  = regexp.MustCompile(`^\s*\d+(?:\s+\d+){3}\s*$`)
	equation     = regexp.MustCompile(`^[\d\s.+\-*/()]+=\s*-?[\d.]+\s*$`)
	optionLetter = regexp.MustCompile(`^\s*\(?([A-Za-z])\)?\.?\s*$`)
	operators    = strings.NewReplacer("+", "", "-", "", "*", "", "/", "", " ", "")
	times        = strings.NewReplacer("x", "*", "×", "*", "÷", "/", "\\times", "*", "\\div", "/")
)

func isGameOf24(r *cheatResult) bool {
	return fourNumbers.MatchString(r.RawInput) && strings.Contains(r.Input, "24")
}

// rightGameOf24 reports whether the expression has the value 24 and uses each of the given numbers once.
func rightGameOf24(r *cheatResult) bool {
	left, _, _ := strings.Cut(r.FinalAnswer, "=")
	if _, after, ok := strings.Cut(left, " is "); ok {
		left = after
	}
	left = times.Replace(left)
	v, err := arithmetic(left)
	if err != nil || math.Abs(v-24) > 1e-3 {
		return false
	}
	used := strings.FieldsFunc(left, func(c rune) bool { return strings.ContainsRune("+-*/() \t\n", c) })
	given := strings.Fields(r.RawInput)
	slices.Sort(used)
	slices.Sort(given)
	return slices.Equal(used, given)
}

func isEquation(r *cheatResult) bool { return equation.MatchString(r.Target) }

// rightEquation reports whether the answer has the numbers of the target in the same order, and the same value.
func rightEquation(r *cheatResult) bool {
	left, _, _ := strings.Cut(r.FinalAnswer, "=")
	want, value, _ := strings.Cut(r.Target, "=")
	if operators.Replace(strings.TrimSpace(left)) != operators.Replace(strings.TrimSpace(want)) {
		return false
	}
	got, err1 := arithmetic(left)
	target, err2 := arithmetic(value)
	return err1 == nil && err2 == nil && math.Abs(got-target) < 1e-6
}

func isChoice(r *cheatResult) bool { return optionLetter.MatchString(r.Target) }

// plainChoice removes the marks around an option.
var plainChoice = strings.NewReplacer("`", "", "(", "", ")", "")

// rightChoice reports whether the answer is the letter of the target, ends with it, or contains the text of its option.
func rightChoice(r *cheatResult) bool {
	letter := strings.ToLower(optionLetter.FindStringSubmatch(r.Target)[1])
	answer := strings.TrimSpace(plainChoice.Replace(strings.ToLower(r.FinalAnswer)))
	answer = strings.TrimSuffix(answer, ".")
	if answer == letter || strings.HasSuffix(answer, " "+letter) {
		return true
	}
	option := optionText(strings.ToLower(r.Input), letter)
	return option != "" && strings.Contains(answer, plainChoice.Replace(option))
}

// optionText returns the text of an option in a question, such as "(B) blue" or "b. blue", or "".
func optionText(question, letter string) string {
	for _, heading := range []string{"options:", "choices:"} {
		if _, after, ok := strings.Cut(question, heading); ok {
			question = after
			break
		}
	}
	for line := range strings.Lines(question) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "(")
		for _, mark := range []string{")", "."} {
			if text, ok := strings.CutPrefix(line, letter+mark); ok {
				return strings.TrimSpace(text)
			}
		}
	}
	return ""
}

// punctuation removes the characters that the scorer for texts ignores.
var punctuation = strings.NewReplacer(",", "", ";", "", ":", "", ".", "", `"`, "", "\n", " ")

func rightText(r *cheatResult) bool {
	return strings.TrimSpace(punctuation.Replace(strings.ToLower(r.FinalAnswer))) == strings.ToLower(strings.TrimSpace(r.Target))
}

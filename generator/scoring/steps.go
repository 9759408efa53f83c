package scoring

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"debrief/events"
)

// stepTarget is the target of BySteps.
type stepTarget struct {
	Answer string `json:"answer"`
	Steps  []struct {
		Name   string `json:"name"`
		Amount string `json:"amount"`
	} `json:"steps"`
}

// scoreSteps is the method of BySteps.
func scoreSteps(target string, a Answer) (events.Outcome, error) {
	var want stepTarget
	if err := json.Unmarshal([]byte(target), &want); err != nil {
		return events.Outcome{}, err
	}
	if want.Answer == "" {
		return events.Outcome{}, errors.New("answer: required")
	}
	if len(want.Steps) == 0 { // without them each wrong answer would get the score of right steps
		return events.Outcome{}, errors.New("steps: required")
	}
	if equalNumber(a.Final, want.Answer) {
		return correct(), nil
	}
	const wrongAnswer = "The answer is wrong: expected %s, got %s."
	got := stepAmounts(a.Reasoning)
	for i, s := range want.Steps {
		amount, ok := got[normalizeName(s.Name)]
		if ok && equalNumber(amount, s.Amount) {
			continue
		}
		o := incorrect(wrongAnswer+" First wrong step: %s: expected %s, got %s.",
			shortText(want.Answer), shortText(a.Final), s.Name, s.Amount, shortText(amount))
		o.Score = float64(i) / float64(2*len(want.Steps))
		return o, nil
	}
	o := incorrect(wrongAnswer+" Every step is right, but the result is not.", shortText(want.Answer), shortText(a.Final))
	o.Score = 0.5
	return o, nil
}

// stepAmounts returns the amounts of the lines "name: amount" in a reasoning, by normalized name. If a name has several lines, the last one counts,
// because a model may correct itself.
func stepAmounts(reasoning string) map[string]string {
	got := make(map[string]string)
	for line := range strings.Lines(reasoning) {
		i := strings.LastIndexByte(line, ':')
		if i < 0 {
			continue
		}
		amount := strings.Trim(line[i+1:], " \t\r\n*_`.,;")
		if _, ok := parseNumber(amount); ok {
			got[normalizeName(line[:i])] = amount
		}
	}
	return got
}

var listMark = regexp.MustCompile(`^(?:[-*+•]+|\d+[.)])\s*`)

// normalizeName returns a step name in lower case, without list marks and emphasis.
func normalizeName(s string) string {
	s = listMark.ReplaceAllString(strings.TrimSpace(s), "")
	return strings.ToLower(strings.Trim(s, " \t*_`\""))
}

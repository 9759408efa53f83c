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

func judgeSteps(target string, a Answer) (events.Outcome, error) {
	var want stepTarget
	if err := json.Unmarshal([]byte(target), &want); err != nil {
		return events.Outcome{}, err
	}
	if want.Answer == "" {
		return events.Outcome{}, errors.New("answer: is empty")
	}
	if sameNumber(a.Final, want.Answer) {
		return right(), nil
	}
	const answer = "The answer is wrong: expected %s, got %s."
	got := stepAmounts(a.Reasoning)
	for i, s := range want.Steps {
		amount, there := got[stepName(s.Name)]
		if there && sameNumber(amount, s.Amount) {
			continue
		}
		o := wrong(answer+" First step that is off: %s: expected %s, got %s.",
			briefly(want.Answer), briefly(a.Final), s.Name, s.Amount, briefly(amount))
		o.Score = float64(i) / float64(2*len(want.Steps))
		return o, nil
	}
	o := wrong(answer+" Every step is right, what was made of them is not.", briefly(want.Answer), briefly(a.Final))
	o.Score = 0.5
	return o, nil
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

package reflector

import (
	"strings"
	"testing"

	"debrief/events"
)

// TestPromptComparesTries checks that a prompt quotes the try with another outcome, also for a right answer, which otherwise has a
// short prompt without comparison.
func TestPromptComparesTries(t *testing.T) {
	t.Parallel()
	const instruction = "which ended better or worse, find the first point at which the two differ"
	for _, label := range []events.Label{events.Failure, events.Success} {
		e := sampleExecution()
		e.Outcome.Label = label
		other := &events.Try{Reasoning: "goods less 3.50", Answer: "96.50", Outcome: events.Outcome{Label: events.Success}}
		if label == events.Success {
			other.Outcome.Label = events.Failure
		}
		if got := quotesOf(t, reflectionPrompt(e, Config{}))[quoteOtherTry]; got != "" {
			t.Errorf("%s: got %q without another try", label, got)
		}
		e.OtherTry = other
		p := reflectionPrompt(e, Config{})
		want := "outcome: " + string(other.Outcome.Label) + "\nreasoning: goods less 3.50\nanswer: 96.50"
		if got := quotesOf(t, p)[quoteOtherTry]; got != want {
			t.Errorf("%s: got %q, want %q", label, got, want)
		}
		if !strings.Contains(p.Messages[0].Text, instruction) {
			t.Errorf("%s: the prompt does not ask for a comparison: %s", label, p.Messages[0].Text)
		}
	}
}

// TestLessonFromAnotherTryIsScreened checks that a text of another try cannot become a lesson word by word.
func TestLessonFromAnotherTryIsScreened(t *testing.T) {
	t.Parallel()
	e := sampleExecution()
	const copied = "subtract three and a half for every gold order before the tax is added"
	e.OtherTry = &events.Try{Reasoning: "I " + copied + ".", Answer: "96.50", Outcome: events.Outcome{Label: events.Success}}
	found := false
	for _, q := range untrustedTexts(e, nil, Config{}) {
		found = found || q.Name == quoteOtherTry && strings.Contains(q.Text, copied)
	}
	if !found {
		t.Error("the other try is not among the untrusted texts")
	}
}

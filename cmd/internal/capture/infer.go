package capture

import (
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/playbook/text"
)

// infer derives the outcome of a run from its messages. Most runs show neither success nor failure: they stay unknown. The rules
// know English only. Precision matters more than recall, because a false outcome teaches a wrong lesson.
//
// The user's next message is the feedback, whatever the outcome: it often says what was wrong, in words and languages that no rule
// knows. A Reflector reads it.
func infer(e *ending) events.Outcome {
	label, reason := inferLabel(e)
	o := events.Outcome{Label: label, Feedback: reason}
	if next := strings.TrimSpace(e.Next); next != "" {
		if reason != "" {
			o.Feedback += ". "
		}
		o.Feedback += "The user's next message: " + steps.ClipTo(next, maxNext)
	}
	if o.Feedback != "" {
		o.Inferred = true
	}
	return o.Complete()
}

// maxNext is the maximum length of the user's next message in an outcome, in bytes.
const maxNext = 2 << 10

// inferLabel returns the label of a run and the reason for it. An unknown label has no reason.
func inferLabel(e *ending) (label events.Label, reason string) {
	switch {
	case corrects(e.Next):
		return events.Failure, "the user corrected the answer"
	case repeats(e.Question, e.Next):
		return events.Failure, "the user repeated the question"
	case confirms(e.Next):
		return events.Success, "the user confirmed the answer"
	case e.Finish == modelapi.FinishRefusal:
		return events.Failure, "the model refused"
	case e.Finish == modelapi.FinishLength:
		return events.Failure, "the answer was cut at a token limit"
	case !e.Last && isFault(e.Status):
		return events.Failure, "the model's API rejected the next call"
	}
	switch lastFailed, recovered := toolResults(e.Steps); {
	case lastFailed:
		return events.Failure, "the last tool call failed"
	case recovered && e.Finish == modelapi.FinishStop && e.Last:
		return events.Success, "a tool worked after it had failed, and the run ended"
	}
	return events.Unknown, ""
}

// isFault reports whether a status means that the request was wrong, such as one over the model's context. A missing
// permission or too many requests are not faults of the run.
func isFault(status int) bool {
	switch status {
	case 401, 402, 403, 407, 408, 409, 425, 429:
		return false
	}
	return status >= 400 && status < 500
}

// toolResults reports whether the last tool result is a failure, and whether the last one is a success of a tool that had
// failed before.
func toolResults(steps []events.Step) (lastFailed, recovered bool) {
	var failed []string
	for _, s := range steps {
		for _, c := range s.Calls {
			switch {
			case c.Outcome.Failed():
				failed = append(failed, c.Tool)
				lastFailed, recovered = true, false
			case c.Outcome == events.Success:
				lastFailed, recovered = false, recovered || slices.Contains(failed, c.Tool)
			}
		}
	}
	return lastFailed, recovered
}

var (
	// correction matches the opening of a message that rejects the answer before it.
	correction = regexp.MustCompile(`^(?:no|nope|wrong|incorrect)(?:[,.!:;]|$)|^(?:no |actually |but )?(?:that|this|it)(?:'s| is| was) (?:still )?(?:wrong|incorrect|not (?:right|correct|true|what|it\b|the))|` +
		`^(?:no |but )?(?:that|this|it) (?:still )?(?:does(?: not|n't)|did(?: not|n't)) (?:work|help|fix|compile|run)|^(?:it |that |this )?still (?:wrong|broken|fails|failing|not )|^you(?:'re| are) wrong|^(?:not correct|not right)\b`)
	// politeNo matches openings that only look like a correction.
	politeNo = regexp.MustCompile(`^no[,.!]? (?:thanks|thank you|thx|problem|worries|need|that's (?:all|it|fine)|it's (?:fine|ok))`)
	// confirmation matches the opening of a message that accepts the answer before it.
	confirmation = regexp.MustCompile(`^(?:ok(?:ay)?[,.!]? |yes[,.!]? )?(?:thanks|thank you|thx|perfect|great|awesome|excellent|that works|it works|works (?:now|great|fine)|that worked|it worked|well done|nice work|good job|lgtm)\b`)
	// reservation matches a word that restricts a confirmation.
	reservation = regexp.MustCompile(`\b(?:but|however|except|although|though|still|wrong|not|doesn't|didn't|isn't|can't|cannot)\b`)
)

// opening returns the first line of a message in the form that the patterns match, without tags such as those of a client.
func opening(message string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	first = strings.ReplaceAll(strings.ToLower(text.Prefix(first, 400)), "’", "'")
	return strings.TrimSpace(first)
}

func corrects(next string) bool {
	s := opening(next)
	return correction.MatchString(s) && !politeNo.MatchString(s)
}

func confirms(next string) bool {
	s := opening(next)
	return confirmation.MatchString(s) && !reservation.MatchString(s)
}

// Limits of a repetition, in words. A short message such as "go on" repeats nothing. A long one may be a template whose few
// other words are the task.
const (
	minRepeated  = 4
	maxRepeated  = 60
	repeatedPart = 0.8 // of the different words of both messages
)

// repeats reports whether a message asks nearly the same as the question.
func repeats(question, next string) bool {
	a, b := words(question), words(next)
	if len(b) < minRepeated {
		return false
	}
	if len(a) > maxRepeated || len(b) > maxRepeated {
		return slices.Equal(a, b)
	}
	first, second := text.Set(strings.Join(a, " ")), text.Set(strings.Join(b, " "))
	shared := 0
	for w := range second {
		if first[w] {
			shared++
		}
	}
	return float64(shared) >= repeatedPart*float64(len(first)+len(second)-shared)
}

func words(s string) []string {
	return slices.Collect(text.Words(strings.ToLower(text.Prefix(s, maxText))))
}

package capture

import (
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/playbook/text"
)

// ending describes the end of a run without an explicit outcome.
type ending struct {
	Question     string
	Steps        []events.Step
	Finish       modelapi.Finish // of the last complete reply
	Status       int             // HTTP status of the last call
	EndsComplete bool            // the last call has a complete reply
	Next         string          // the user's next message
}

// infer derives the outcome of a run from its messages. The label of most runs is unknown, because they show neither success nor failure.
// The rules know English only. Precision matters more than recall, because a false outcome teaches a wrong lesson.
//
// Every outcome is marked as inferred, also one with an unknown label: a Reflector may still learn from a failed tool call of such a run,
// and because of the mark this lesson alone activates no bullet.
//
// The feedback has the user's next message with each label: it often says what was wrong, in words and languages that no rule knows. A
// Reflector reads it.
func infer(e *ending) events.Outcome {
	label, reason := inferLabel(e)
	o := events.Outcome{Label: label, Feedback: reason, Inferred: true}
	if next := strings.TrimSpace(e.Next); next != "" {
		if reason != "" {
			o.Feedback += ". "
		}
		o.Feedback += "The user's next message: " + steps.ClipTo(next, maxNext)
	}
	return o.Complete()
}

const maxNext = 2 << 10 // maximum length of the user's next message in an outcome, in bytes

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
	case !e.EndsComplete && isFault(e.Status):
		return events.Failure, "the model's API rejected the next call"
	}
	lastFailed, recovered := toolResults(e.Steps)
	if lastFailed {
		return events.Failure, "the last tool call failed"
	}
	if recovered && e.Finish == modelapi.FinishStop && e.EndsComplete {
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

// toolResults reports whether the last tool result is a failure, and whether a tool that had failed worked later and no tool has
// failed since.
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

// Patterns for the opening of a message that rejects or accepts the answer before it. A word alone decides nothing: "Perfect Storm"
// is a film, and "No. 5" a number. So the opening must be a whole clause: it ends with punctuation, with the end of the message, or
// with words that follow only such an opening.
var (
	// correction matches an opening that rejects the answer: "no, ", "that's still wrong", "that's not it", "it doesn't work", "still broken".
	correction = regexp.MustCompile(`^(?:no|nope|wrong|incorrect|not (?:correct|right|quite))(?:[,!;:.—]| -|$)|` +
		`^(?:no,? |actually,? |but |sorry,? )?(?:that|this|it)(?:'s| is| was) (?:still |just |simply |completely |totally )?(?:wrong|incorrect|not (?:right|correct|true|what|it\b(?: is|$|[.,!])|the (?:right|correct)))|` +
		`^(?:no,? |but )?(?:that|this|it) (?:still )?(?:does(?: not|n't)|did(?: not|n't)) (?:work|help|fix|compile|run)\b|` +
		`^(?:it |that |this )?still (?:wrong|broken|fails|failing|not (?:working|right|correct|fixed))\b|^you(?:'re| are) (?:still )?wrong\b`)
	// politeNo matches openings that only look like a correction: "no, thanks", "that is not right, is it", "that's wrong-way traffic", "No. 5 is
	// next", "No. of orders?".
	politeNo = regexp.MustCompile(`^no[,.!]? (?:thanks|thank you|thx|problem|worries|need|` +
		`that's (?:all|it|fine|right|correct|ok)|it's (?:fine|ok|right|correct|good)|\d|\p{N})|` +
		`^(?:that|this|it)(?:'s| is) not (?:right|correct|true|wrong),? (?:is|was) it|` +
		`^(?:no,? )?(?:that|this|it)(?:'s| is| was) (?:\w+ )?(?:wrong|incorrect|not (?:right|true))-\w|` +
		`^no\. ?(?:of\b|[0-9a-z](?:[ .,?:]|\d|$))`)
	// confirmation matches an opening that accepts the answer: "ok, thanks!", "perfect.", "that works", "thanks, it worked".
	confirmation = regexp.MustCompile(`^(?:ok(?:ay)?[,.!]? |yes[,.!]? |ah[,.!]? )?(?:` +
		`(?:thanks|thank you|thx|many thanks)(?: (?:so much|a lot|very much|again|for (?:the|your|this|that|that one) ?\w*))?|` +
		`(?:perfect|great|awesome|excellent|wonderful|brilliant)(?: (?:work|job|answer|thanks|thank you))?|` +
		`that works|it works|works (?:now|great|fine|perfectly)|that worked|it worked|well done|nice work|good job|lgtm)(?:[,.!]| -|$)|` +
		`^(?:thanks|thank you),? (?:that|this|it) (?:works|worked|helped|helps|is (?:right|correct|perfect|great))\b`)
	// reservation matches what makes a confirmation doubtful: a restriction such as "but", the end of "thanks for nothing", or a final
	// question mark.
	reservation = regexp.MustCompile(`\b(?:but|however|except|although|though|still|wrong|not|doesn't|didn't|isn't|can't|cannot|for nothing|in advance|yet)\b|\?\s*$`)
)

// opening returns the first line of a message in the form that the patterns match: lower case, straight apostrophes.
func opening(message string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	first = strings.ReplaceAll(strings.ToLower(text.Prefix(first, 400)), "’", "'")
	return strings.TrimSpace(first)
}

func corrects(next string) bool {
	s := opening(next)
	return correction.MatchString(s) && !politeNo.MatchString(s)
}

// confirms reports whether a message accepts the answer. Only its first sentence counts, because the next one is often another
// request. A next sentence that begins with "but", "however" or "except" restricts the first one.
func confirms(next string) bool {
	s := opening(next)
	found := confirmation.FindStringIndex(s)
	if found == nil {
		return false
	}
	last := found[1] - 1 // of the confirmation; the sentence ends there or later, and not after the "ok." in "ok. thanks, but …"
	sentence, rest := s, ""
	if i := strings.IndexAny(s[last:], ".!"); i >= 0 {
		sentence, rest = s[:last+i], strings.TrimLeft(s[last+i:], ".! ")
	}
	isRestricted := strings.HasPrefix(rest, "but ") || strings.HasPrefix(rest, "however") || strings.HasPrefix(rest, "except")
	return !isRestricted && !reservation.MatchString(sentence)
}

// Limits of a repetition, in words. A short message such as "go on" repeats nothing. A long one may be a template that differs from
// the question only in the few words of the task, so it must be equal.
const (
	minRepeated  = 4
	maxRepeated  = 60
	repeatedPart = 0.8 // of the different words of the question
)

// repeats reports whether a message asks nearly the same as the question. A message with another number, name or quotation, or
// with a new word of its own, is another task, such as the next one of a list.
func repeats(question, next string) bool {
	a, b := words(question), words(next)
	if len(b) < minRepeated {
		return false
	}
	if len(a) > maxRepeated || len(b) > maxRepeated {
		return slices.Equal(a, b)
	}
	if !mentions(next, details(question)) || !mentions(question, details(next)) {
		return false // another number, name or quotation is another task
	}
	first, second := text.Set(strings.Join(a, " ")), text.Set(strings.Join(b, " "))
	shared := 0
	for w := range second {
		switch {
		case first[w]:
			shared++
		case !fillers[w]:
			return false
		}
	}
	return float64(shared) >= repeatedPart*float64(len(first))
}

// detail matches the parts of a message that distinguish two tasks: a quotation, a word with a digit, or a word with a capital letter.
// It also matches the first word of a sentence with the punctuation before it, so that details can leave out that word.
var detail = regexp.MustCompile("[\"“„«`][^\"”“»`\\n]{1,80}[\"”“»`]|[\\p{L}\\p{N}_./@#:-]*\\p{N}[\\p{L}\\p{N}_./@#:-]*|[.!?:\\n]\\s+\\p{L}+|\\p{L}*\\p{Lu}[\\p{L}\\p{N}]*")

// fillers are the words that a person adds to a repeated question, in several languages.
var fillers = text.Set("please again i said asked so now just really can could would you tell me us once more ok okay well and but the a an for to of in on my is was it this that " +
	"still actually instead help kindly bitte nochmal noch einmal also s'il vous plaît encore por favor otra vez di nuovo per favore")

// mentions reports whether a message has all these details.
func mentions(message string, all []string) bool {
	message = strings.ToLower(text.Prefix(message, maxText))
	return !slices.ContainsFunc(all, func(d string) bool { return !strings.Contains(message, d) })
}

// details returns the details of a message, in lower case. The first word of a sentence is no detail: it has a capital letter anyway.
func details(s string) []string {
	s = strings.TrimSpace(text.Prefix(s, maxText))
	var all []string
	for _, m := range detail.FindAllStringIndex(s, -1) {
		d := s[m[0]:m[1]]
		firstOfMessage := m[0] == 0 && !strings.ContainsAny(d, "0123456789\"“„«`")
		firstOfSentence := strings.ContainsAny(d[:1], ".!?:\n")
		if firstOfMessage || firstOfSentence {
			continue
		}
		d = strings.Trim(strings.ToLower(d), ".:-")
		if d != "i" && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

func words(s string) []string {
	return slices.Collect(text.Words(strings.ToLower(text.Prefix(s, maxText))))
}

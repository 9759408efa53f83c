package reflector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/playbook/similar"
)

// A wrong answer may get another round: the task goes back to the Generators with the advice that came of the answer.
// What the rounds know travels in the task and in the execution, so any worker goes on with them, and nothing is lost
// with one. A sample ends with a right answer or with its last round, and has one reflection, with one id, whichever
// round it ends with.

// Bounds of what a round hands on, in characters.
const (
	maxTriedAnswer = 2000
	maxTriedText   = 1000

	maxTriedIgnored = 4 // sentences
)

// goesOn reports whether an execution can have another round: a wrong answer of our Generators, which an evaluator judged
// and can judge again.
func (r *Reflector) goesOn(e *events.Execution) bool {
	rounds := min(cmp.Or(e.Rounds, r.cfg.Rounds), events.MaxRounds)
	return r.model != nil && len(e.Tries)+1 < rounds && len(e.Steps) == 0 && judgeable(e) &&
		(e.Outcome.Label == events.Failure || e.Outcome.Label == events.Partial)
}

// judgeable reports whether the answer of another round could be judged: a program may know by itself what is right.
func judgeable(e *events.Execution) bool {
	return e.Evaluator != "" && e.Target != "" || strings.HasPrefix(e.Evaluator, events.ProgramEvaluator)
}

// round is the task of another round, nil where there is no advice to try.
func round(e *events.Execution, h events.Handle, ref *events.Reflection) *events.Task {
	if ref.KeyInsight == "" && ref.CorrectApproach == "" {
		return nil
	}
	answer, amounts := answersOf(e.Target)
	secrets := append(amounts, answer)
	try := events.Try{
		Execution: e.ID, Handle: h, Answer: events.Cut(e.Answer, maxTriedAnswer),
		Error:    hide(events.Cut(ref.ErrorIdentification, maxTriedText), secrets),
		Approach: hide(events.Cut(ref.CorrectApproach, maxTriedText), secrets),
		Insight:  hide(ref.KeyInsight, []string{answer}),
		Score:    e.Outcome.Score, Usage: ref.Usage, Tags: ref.Tags, Ignored: ref.Ignored[:min(len(ref.Ignored), maxTriedIgnored)],
	}
	if len(ref.Lessons) > 0 {
		try.Section = ref.Lessons[0].Section
	}
	if e.Manifest != nil {
		try.Trials = e.Manifest.Trials
	}
	t := &events.Task{
		ID: e.TaskID, Session: e.Session, Question: e.Question, Context: e.Context, Purpose: e.Purpose, Target: e.Target,
		Evaluator: e.Evaluator, Rounds: e.Rounds, Turn: e.Turn, Tries: append(slices.Clone(e.Tries), try), Origin: e.Origin, Created: time.Now().UTC(),
	}
	t.Origin.Round++
	t.Book = e.Book
	if e.Pinned {
		t.Playbook = &e.Version
	}
	return t
}

// conclude makes a reflection on the last round that of the sample. The votes are those of the first round, whose prompt
// was the playbook's alone. The lessons are the last round's own and the insights that a later round proved right.
func conclude(e *events.Execution, ref *events.Reflection) {
	if len(e.Tries) == 0 {
		return
	}
	ref.Tags = e.Tries[0].Tags
	for i := range slices.Backward(e.Tries) {
		t := &e.Tries[i]
		ref.Usage, ref.Ignored = ref.Usage.Add(t.Usage), append(ref.Ignored, t.Ignored...)
		if t.Insight == "" || !proved(e, i) || superseded(t.Insight, ref.Lessons) {
			continue
		}
		if why := forgery(t.Insight); why != "" { // a task may come from anywhere
			ref.Ignored = append(ref.Ignored, fmt.Sprintf("insight %q of an earlier round: %s", inLine(t.Insight), why))
			continue
		}
		ref.Lessons = append(ref.Lessons, events.Lesson{Section: t.Section, Content: t.Insight})
	}
	if last := &e.Tries[len(e.Tries)-1]; e.Outcome.Label == events.Success {
		ref.ErrorIdentification, ref.CorrectApproach = last.Error, last.Approach
		if len(ref.Lessons) > 0 {
			ref.KeyInsight = ref.Lessons[0].Content
		}
	}
}

// proved reports whether the outcome bears a try's insight out: the answer that was made with it is right in the end, or
// the next one was better.
func proved(e *events.Execution, i int) bool {
	before, after := e.Tries[i].Score, e.Outcome.Score
	if i+1 < len(e.Tries) {
		after = e.Tries[i+1].Score
	}
	return after > before || after == before && e.Outcome.Label == events.Success
}

// superseded reports whether one of the lessons is about the same as an earlier insight, such as with another number.
func superseded(insight string, lessons []events.Lesson) bool {
	return slices.ContainsFunc(lessons, func(l events.Lesson) bool { return similar.Likeness(l.Content, insight) >= sameMatter })
}

const sameMatter = 0.75 // likeness

// answersOf is the right answer that a target holds, and the amounts on the way to it.
func answersOf(target string) (answer string, amounts []string) {
	var steps struct {
		Answer string
		Steps  []struct{ Amount string }
	}
	if json.Unmarshal([]byte(target), &steps) != nil {
		return strings.TrimSpace(target), nil
	}
	for _, s := range steps.Steps {
		amounts = append(amounts, s.Amount)
	}
	return strings.TrimSpace(steps.Answer), amounts
}

const hidden = "[the expected answer]"

// hide takes what a right answer is out of advice: a round that is told the answer proves nothing about the advice.
func hide(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret == "" || len(secret) > maxTriedText {
			continue
		}
		var out strings.Builder
		rest := text
		for {
			at := strings.Index(rest, secret)
			if at < 0 {
				break
			}
			end := at + len(secret)
			if within(rest, at, end) {
				out.WriteString(rest[:end])
			} else {
				out.WriteString(rest[:at] + hidden)
			}
			rest = rest[end:]
		}
		text = out.String() + rest
	}
	return text
}

// within reports whether a part of a text is in the middle of a word or a number.
func within(text string, at, end int) bool {
	wordly := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, size := utf8.DecodeRuneInString(text[end:])
	if (after == '.' || after == ',') && end+size < len(text) { // of a number, or of a sentence
		next, _ := utf8.DecodeRuneInString(text[end+size:])
		if unicode.IsDigit(next) {
			return true
		}
	}
	return wordly(before) || wordly(after)
}

package reflector

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// After a wrong answer there may be another round: the task is published again with the advice from the reflection. The
// task and the execution contain all state of the rounds, so any worker can continue them. A sample ends with a right
// answer or with its last round. It has one reflection, and its id does not depend on the number of rounds.

// Limits of the texts that a round passes to the next, in characters.
const (
	maxRoundAnswer = 2000
	maxRoundText   = 1000

	maxRoundIgnored = 4 // sentences
)

// hasNextRound reports whether an execution may have another round: it is a wrong answer of a Generator, and its
// evaluator can score another answer. A violation ends the rounds, so that its bullets are suspended at once.
func (r *Reflector) hasNextRound(e *events.Execution) bool {
	rounds := min(cmp.Or(e.Rounds, r.cfg.Rounds), events.MaxRounds)
	if r.model == nil || e.Outcome.Violation || len(e.PreviousRounds)+1 >= rounds {
		return false
	}
	byGenerator := len(e.Steps) == 0
	isWrong := e.Outcome.Label == events.Failure || e.Outcome.Label == events.Partial
	return byGenerator && isWrong && canScore(e)
}

// canScore reports whether the evaluator can score another answer. A program may not need a target.
func canScore(e *events.Execution) bool {
	return e.Evaluator != "" && e.Target != "" || events.WorksWithoutTarget(e.Evaluator)
}

// nextRound returns the task of the next round, or nil if the reflection has no advice.
func nextRound(e *events.Execution, h events.Handle, ref *events.Reflection) *events.Task {
	if ref.KeyInsight == "" && ref.CorrectApproach == "" {
		return nil
	}
	answer, amounts := parseTarget(e.Target)
	expected := append(amounts, answer)
	round := events.PreviousRound{
		Execution: e.ID, Handle: h, Answer: events.TruncateChars(e.Answer, maxRoundAnswer),
		Error:    hideAnswers(events.TruncateChars(ref.ErrorIdentification, maxRoundText), expected),
		Approach: hideAnswers(events.TruncateChars(ref.CorrectApproach, maxRoundText), expected),
		Insight:  hideAnswers(ref.KeyInsight, []string{answer}),
		Score:    e.Outcome.Score, Usage: ref.Usage, Model: ref.Model, Tags: ref.Tags, Ignored: ref.Ignored[:min(len(ref.Ignored), maxRoundIgnored)],
		Exposures: e.Exposures(),
	}
	if len(ref.Lessons) > 0 {
		round.Section, round.When = ref.Lessons[0].Section, hideAnswers(ref.Lessons[0].When, []string{answer})
	}
	for _, l := range ref.Lessons {
		if l.Code != "" {
			round.Flagged = append(round.Flagged, l)
		}
	}
	t := &events.Task{
		Book: e.Book, ID: e.RunID, Owner: e.Owner, User: e.User, Session: e.Session, Question: e.Question, Context: e.Context, Purpose: e.Purpose,
		Target: e.Target, Evaluator: e.Evaluator, Rounds: e.Rounds, Turn: e.Turn, PreviousRounds: append(slices.Clone(e.PreviousRounds), round),
		Origin: e.Origin, Created: time.Now().UTC(),
	}
	t.Origin.Round++
	if e.Pinned {
		t.Playbook = &e.Version
	}
	return t
}

// finishSample turns the reflection on the last round into that of the sample. The votes are those of the first round,
// whose prompt contained only the playbook. The lessons are those of the last round, and earlier insights that
// improved the score, of several on one topic the latest. Earlier lessons are screened again, because they come from the task,
// which is not trusted.
func finishSample(e *events.Execution, ref *events.Reflection) {
	if len(e.PreviousRounds) == 0 {
		return
	}
	for i := range e.PreviousRounds {
		ref.Usage = ref.Usage.Add(e.PreviousRounds[i].Usage)
	}
	if ref.LabelSuspect != "" {
		return // the outcomes of earlier rounds are doubtful too: all rounds have the same target
	}
	ref.Tags = e.PreviousRounds[0].Tags
	for i := range slices.Backward(e.PreviousRounds) {
		t := &e.PreviousRounds[i]
		ref.Ignored = append(ref.Ignored, t.Ignored...)
		for _, l := range t.Flagged {
			l.Code = cmp.Or(l.Code, playbook.ReasonCopied) // a task that lacks the code must not make the lesson acceptable
			ref.Lessons = append(ref.Lessons, l)
		}
		if t.Insight == "" || !improved(e, i) || superseded(t.Insight, ref.Lessons) {
			continue
		}
		ref.Lessons = append(ref.Lessons, markLesson(events.Lesson{Section: t.Section, When: t.When, Content: t.Insight}, ""))
	}
	last := &e.PreviousRounds[len(e.PreviousRounds)-1]
	ref.Model = cmp.Or(ref.Model, last.Model) // no model is asked about a right answer after wrong ones
	if e.Outcome.Label == events.Success {
		ref.ErrorIdentification, ref.CorrectApproach = last.Error, last.Approach
		if i := slices.IndexFunc(ref.Lessons, func(l events.Lesson) bool { return l.Code == "" }); i >= 0 {
			ref.KeyInsight = ref.Lessons[i].Content
		}
	}
}

// improved reports whether the insight of earlier round i improved the answer: the next score is higher, or it is equal and the sample
// ended with success.
func improved(e *events.Execution, i int) bool {
	before, after := e.PreviousRounds[i].Score, e.Outcome.Score
	if i+1 < len(e.PreviousRounds) {
		after = e.PreviousRounds[i+1].Score
	}
	return after > before || after == before && e.Outcome.Label == events.Success
}

// superseded reports whether a lesson has about the same topic as an earlier insight, for example with another number.
func superseded(insight string, lessons []events.Lesson) bool {
	return slices.ContainsFunc(lessons, func(l events.Lesson) bool { return similar.Similarity(l.Content, insight) >= sameTopic })
}

const sameTopic = 0.75 // minimum similarity

// parseTarget returns the right answer in a target, and the amounts of its intermediate steps.
func parseTarget(target string) (answer string, amounts []string) {
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

const hiddenAnswer = "[the expected answer]"

// hideAnswers replaces right answers in advice. Otherwise the next round could copy the answer, and its score would not
// measure the advice.
func hideAnswers(text string, answers []string) string {
	for _, answer := range answers {
		if answer == "" || len(answer) > maxRoundText {
			continue
		}
		var out strings.Builder
		done := 0 // bytes of text that are in out
		for from := 0; ; {
			at := strings.Index(text[from:], answer)
			if at < 0 {
				break
			}
			at += from
			from = at + len(answer)
			if !insideWord(text, at, from) {
				out.WriteString(text[done:at] + hiddenAnswer)
				done = from
			}
		}
		text = out.String() + text[done:]
	}
	return text
}

// insideWord reports whether s[at:end] is a part of a longer word or number.
func insideWord(s string, at, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	after, size := utf8.DecodeRuneInString(s[end:])
	if (after == '.' || after == ',') && end+size < len(s) { // a decimal separator or punctuation
		next, _ := utf8.DecodeRuneInString(s[end+size:])
		if unicode.IsDigit(next) {
			return true
		}
	}
	return text.InWord(before) || text.InWord(after)
}

package events

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/playbook"
)

// Label classifies an outcome. The values are stored, so they must not change.
type Label string

// The labels of an outcome.
const (
	Success Label = "success"
	Partial Label = "partial"
	Failure Label = "failure"
	Unknown Label = "unknown"
)

// Additional outcomes of tool calls.
const (
	TimedOut Label = "timeout"
	Errored  Label = "error"
)

// Failed reports whether a tool call with this outcome failed.
func (l Label) Failed() bool { return l == Failure || l == TimedOut || l == Errored }

// Outcome rates an execution. By names the evaluator or person that rated it.
type Outcome struct {
	Score    float64 `msgpack:"score" json:"score"` // 0 to 1; without a label, 0 means unknown: a failure needs the label
	Label    Label   `msgpack:"label" json:"label"`
	Feedback string  `msgpack:"feedback,omitempty" json:"feedback,omitempty"`
	By       string  `msgpack:"by,omitempty" json:"by,omitempty"`
	// Inferred is set if the outcome was derived from the messages of the run, without a report of it, or if an agent rated its own run.
	Inferred bool `msgpack:"inferred,omitempty" json:"inferred,omitempty"`
	// Violation is set if the run broke a rule that no score outweighs. The outcome is then a failure with the score 0, and the
	// Curator suspends the bullets behind it until a person decides. Only an evaluator program or a person with the scope review sets it.
	Violation bool `msgpack:"violation,omitempty" json:"violation,omitempty"`
	// Scores are the named scores, if there are several: at most MaxScores, with the one from which Score was taken. They are shown to
	// people, and count for nothing.
	Scores []NamedScore `msgpack:"scores,omitempty" json:"scores,omitempty"`
}

// NamedScore is one of several scores of an execution.
type NamedScore struct {
	Name  string  `msgpack:"n" json:"name"`
	Score float64 `msgpack:"s" json:"score"` // 0 to 1
}

// JudgePrefix begins the name of a judge in Outcome.By. Its model and the version of its rubric follow.
const JudgePrefix = playbook.JudgePrefix

// MaxScores is the maximum number of named scores of an outcome.
const MaxScores = 20

// Judge returns the name of the judge that rated the execution, "" for any other source.
func (o *Outcome) Judge() string {
	if strings.HasPrefix(o.By, JudgePrefix) {
		return clipName(o.By)
	}
	return ""
}

// Known reports whether the outcome has a label other than Unknown.
func (o Outcome) Known() bool { return o.Label != "" && o.Label != Unknown }

// Complete derives a missing label from the score, or a missing score from the label. Votes follow the label, and
// experiments follow the score. A score of 0 without a label stays unknown, because 0 is also the value of a
// missing score. A violation is a failure with the score 0, whatever the outcome said.
func (o Outcome) Complete() Outcome {
	switch {
	case o.Violation:
		o.Label, o.Score = Failure, 0
	case o.Label == "" && o.Score > 0:
		o.Label = LabelOf(o.Score)
	case o.Label == Success && o.Score == 0:
		o.Score = 1
	case o.Label == Partial && o.Score == 0:
		o.Score = 0.5
	}
	return o
}

// Remark returns the feedback, with the named scores before it.
func (o Outcome) Remark() string {
	if len(o.Scores) == 0 {
		return o.Feedback
	}
	var scores []string
	for _, s := range o.Scores {
		scores = append(scores, fmt.Sprintf("%s %.2f", s.Name, s.Score))
	}
	return strings.TrimSpace(strings.Join(scores, ", ") + ". " + o.Feedback)
}

// LabelOf returns the label for a score: Success from 1, Failure up to 0, and Partial between them.
func LabelOf(score float64) Label {
	switch {
	case score >= 1:
		return Success
	case score <= 0:
		return Failure
	}
	return Partial
}

// WithFeedback returns the outcome after feedback. Feedback with a known outcome replaces the outcome, but an inferred outcome does not
// replace a reported one. Other feedback, such as a comment or only a target, replaces just the comment.
func (o Outcome) WithFeedback(f *Feedback) Outcome {
	corrected := f.Outcome.Complete()
	isReported := o.Known() && !o.Inferred
	switch {
	case corrected.Inferred && isReported:
		return o
	case corrected.Known():
		return corrected
	}
	o.Feedback = cmp.Or(f.Outcome.Feedback, o.Feedback)
	return o
}

func (o *Outcome) validate() error {
	switch o.Label {
	case Success, Partial, Failure, Unknown, "":
	default:
		return fmt.Errorf("outcome.label: must be success, partial, failure or unknown, got %.80q", o.Label)
	}
	if !(o.Score >= 0 && o.Score <= 1) { // also NaN
		return fmt.Errorf("outcome.score: must be between 0 and 1, got %v", o.Score)
	}
	if o.Violation && (o.Label != Failure || o.Score != 0) {
		return fmt.Errorf("outcome.violation: want label failure and score 0, got %.80q and %v", o.Label, o.Score)
	}
	if len(o.Scores) > MaxScores {
		return fmt.Errorf("outcome.scores: at most %d, got %d", MaxScores, len(o.Scores))
	}
	for i := range o.Scores {
		s := &o.Scores[i]
		if s.Name == "" || FitName(s.Name) != s.Name {
			return fmt.Errorf("outcome.scores[%d].name: want at most %d bytes without control characters, got %.80q", i, MaxName, s.Name)
		}
		if !(s.Score >= 0 && s.Score <= 1) {
			return fmt.Errorf("outcome.scores[%d].score: must be between 0 and 1, got %v", i, s.Score)
		}
	}
	return nil
}

// Feedback records or corrects the outcome of an execution after it was stored.
type Feedback struct {
	Book      playbook.Book `msgpack:"-" json:"book"` // in the subject, not in the payload
	ID        ID            `msgpack:"id" json:"id"`
	Execution Handle        `msgpack:"execution" json:"execution"`
	Outcome   Outcome       `msgpack:"outcome" json:"outcome"`
	Target    string        `msgpack:"target,omitempty" json:"target,omitempty"`
	Created   time.Time     `msgpack:"created" json:"created,omitzero"`
}

func (*Feedback) Kind() Kind { return KindFeedback }

func (f *Feedback) InBook() playbook.Book   { return f.Book }
func (f *Feedback) setBook(b playbook.Book) { f.Book = b }

func (f *Feedback) EventID() ID { return f.ID }

func (f *Feedback) Validate() error {
	err := f.Execution.Validate()
	if err != nil {
		err = fmt.Errorf("execution: %w", err)
	}
	return errors.Join(f.ID.validate(), err, f.Outcome.validate())
}

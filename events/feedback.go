package events

import (
	"cmp"
	"fmt"
	"strings"
)

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

// WithFeedback returns the outcome after feedback. Feedback with a known outcome replaces this one, but an inferred outcome does not
// replace one that was reported. Other feedback, such as a comment or only a target, replaces just the comment.
func (o Outcome) WithFeedback(f *Feedback) Outcome {
	corrected := f.Outcome.Complete()
	switch isReported := o.Known() && !o.Inferred; {
	case corrected.Inferred && isReported:
		return o
	case corrected.Known():
		return corrected
	}
	o.Feedback = cmp.Or(f.Outcome.Feedback, o.Feedback)
	return o
}

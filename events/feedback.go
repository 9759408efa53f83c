package events

import "cmp"

// Known reports whether an outcome says how well an execution went.
func (o Outcome) Known() bool { return o.Label != "" && o.Label != Unknown }

// Complete is an outcome with both of score and label where one of them is given: votes follow the label, and trials the
// score. A score of 0 alone says nothing: it is what an outcome without a score has.
func (o Outcome) Complete() Outcome {
	switch {
	case o.Label == "" && o.Score > 0:
		o.Label = LabelOf(o.Score)
	case o.Label == Success && o.Score == 0:
		o.Score = 1
	case o.Label == Partial && o.Score == 0:
		o.Score = 0.5
	}
	return o
}

// LabelOf is the label of a score.
func LabelOf(score float64) Label {
	switch {
	case score >= 1:
		return Success
	case score <= 0:
		return Failure
	}
	return Partial
}

// After is the outcome that later feedback leaves of this one. Feedback that judges takes its place; one that only says
// something, or what would have been right, leaves label and score as they are.
func (o Outcome) After(f *Feedback) Outcome {
	if now := f.Outcome.Complete(); now.Known() {
		return now
	}
	o.Feedback = cmp.Or(f.Outcome.Feedback, o.Feedback)
	return o
}

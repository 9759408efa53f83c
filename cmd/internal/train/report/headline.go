package report

import (
	"fmt"
	"slices"

	"debrief/cmd/internal/program/term"
)

// Headline is the main result of a run in words.
type Headline struct {
	From, To string // figures; From is empty without an earlier figure
	What     string // meaning of the figures
	Detail   []string
}

// Headline returns the result on the test set. Without a measurement of it, the result is that on the validation set, else that on the
// training samples.
func (r *Report) Headline() Headline {
	switch {
	case r.After != nil && r.After.N > 0:
		return r.testHeadline()
	case r.Validated():
		return r.validationHeadline()
	case len(r.Epochs) > 0 && r.Epochs[len(r.Epochs)-1].Train.N > 0:
		return r.trainingHeadline()
	}
	return Headline{
		To: term.Plural(r.Final.Bullets, "bullet"), What: "in the final playbook",
		Detail: []string{"No sample has a label, so the quality of the playbook is unknown. Add a test set, or evaluate the playbook on one."},
	}
}

func (r *Report) testHeadline() Headline {
	h := Headline{To: percent(r.After.Accuracy), What: "of the test set answered right with the best playbook"}
	if r.Before == nil || r.Before.N == 0 {
		h.Detail = []string{r.After.describe() + ". The test set was not measured without the playbook, so the effect of the playbook is unknown."}
		return h
	}
	h.From, h.What = percent(r.Before.Accuracy), "of the test set answered right, before learning and with the best playbook"
	if r.Against != nil {
		h.What = fmt.Sprintf("of the test set answered right, with playbook %s and with the playbook learned from its executions", r.Against.Book)
	}
	p := r.Paired
	if p == nil || p.N == 0 {
		h.Detail = []string{"No sample has a label both times."}
		return h
	}
	h.Detail = []string{fmt.Sprintf("%+.1f points (95 %% interval %+.1f to %+.1f) on the %s with a label both times: %d went from wrong to right and %d from right to wrong (p = %.2g, McNemar's exact test).",
		100*p.Difference, 100*p.Low, 100*p.High, term.Plural(p.N, "sample"), p.Wins, p.Losses, p.P)}
	if r.Before.MeanText() != "" || r.After.MeanText() != "" {
		h.Detail = append(h.Detail, fmt.Sprintf("Some answers are partly right: the mean score was %.3f before and is %.3f now.", r.Before.Mean, r.After.Mean))
	}
	switch {
	case p.High < 0:
		h.Detail = append(h.Detail, "The learned playbook does harm.")
	case p.Low <= 0:
		h.Detail = append(h.Detail, "The interval contains 0: this run does not show a difference.")
	}
	return h
}

// Validated reports whether the validation set was measured: the best playbook was chosen on it.
func (r *Report) Validated() bool { return slices.ContainsFunc(r.Points, isValidation) }

func isValidation(p Point) bool { return p.Set == "validation" && p.Score.N > 0 }

func (r *Report) validationHeadline() Headline {
	var first, best *Point
	for i := range r.Points {
		p := &r.Points[i]
		if !isValidation(*p) {
			continue
		}
		if first == nil {
			first = p
		}
		if best == nil || p.Book.Version == r.Best.Version { // the first point stays if none has the version of the best playbook
			best = p
		}
	}
	h := Headline{
		To: percent(best.Score.Accuracy), What: "of the validation set answered right with the best playbook",
		Detail: []string{best.Score.describe() + ". The best playbook was chosen on these samples, so this figure is too high; use a test set for an unbiased figure."},
	}
	if first.Step < best.Step {
		h.From = percent(first.Score.Accuracy)
		h.What = fmt.Sprintf("of the validation set answered right, after %s and with the best playbook", term.Plural(first.Step, "training sample"))
	}
	return h
}

func (r *Report) trainingHeadline() Headline {
	first, last := r.Epochs[0], r.Epochs[len(r.Epochs)-1]
	h := Headline{
		To: percent(last.Train.Accuracy), What: "of the training samples answered right, each before learning from it",
		Detail: []string{last.Train.describe() + ", each with the playbook of that moment."},
	}
	if len(r.Epochs) > 1 && first.Train.N > 0 {
		h.From = percent(first.Train.Accuracy)
		h.What = fmt.Sprintf("of the training samples answered right in epoch %d and in epoch %d", first.Epoch, last.Epoch)
		h.Detail = append(h.Detail, "After the first epoch the playbook has learned from these samples, so this is no estimate for new samples; use a test set.")
		return h
	}
	batches := slices.DeleteFunc(slices.Clone(r.Points), func(p Point) bool { return p.Set != "train" })
	fifth := len(batches) / 5 // number of batches
	early, late := accuracyOf(batches[:fifth]), accuracyOf(batches[len(batches)-fifth:])
	if early.N > 0 { // there are at least five batches
		h.Detail = append(h.Detail, fmt.Sprintf("Of the first fifth %s, of the last %s.", percent(early.Mean), percent(late.Mean)))
	}
	return h
}

// accuracyOf returns the accuracy over all samples of several measurements.
func accuracyOf(points []Point) Estimate {
	var all Score
	for _, p := range points {
		all = all.Plus(p.Score)
	}
	return all.Interval()
}

// describe describes a score: 8 of 10 samples, with the interval.
func (s Score) describe() string {
	e := s.Interval()
	text := fmt.Sprintf("%d of %s (95 %% interval %s to %s)", s.Right, term.Plural(s.N, "sample"), percent(e.Low), percent(e.High))
	if mean := s.MeanText(); mean != "" {
		text += ", " + mean
	}
	return text
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

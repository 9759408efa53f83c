package report

import (
	"fmt"
	"strconv"

	"debrief/cmd/internal/components"
	"debrief/cmd/internal/stats"
)

// learned reports whether the best playbook has something that the run learned.
func (r *Report) learned() bool {
	return r.Best.Step > 0 && r.Best.Bullets > 0 && len(r.Operations) > 0
}

// interval returns the 95 % interval of the accuracy, as shares.
func (s *Score) interval() (low, high float64) {
	right := min(max(s.Right, 0), max(s.N, 0))
	e := stats.Share(right, max(s.N, 0))
	return e.Low, e.High
}

// counted describes a score: 8 of 10 samples, with the interval.
func (s *Score) counted() string {
	low, high := s.interval()
	return fmt.Sprintf("%s of %s (95\u00a0%% interval %s to %s)", components.Thousands(s.Right), components.Plural(s.N, "sample"), components.Percent(low), components.Percent(high))
}

// headline is the main result of a run.
type headline struct {
	From, To string // figures; From is empty without an earlier figure
	What     string // meaning of the figures
	Detail   []string
}

// headline returns the result of the strongest measurement: the test set, else the validation set, else the training
// samples.
func (r *Report) headline() headline {
	validated := r.validated()
	switch {
	case r.After != nil && r.After.N > 0 && r.Before != nil && r.Before.N > 0:
		return r.testHeadline()
	case r.After != nil && r.After.N > 0:
		return headline{
			To: components.Percent(r.After.Accuracy), What: "of the test set answered right with the best playbook",
			Detail: []string{r.After.counted() + ". The test set was not measured without the playbook, so the effect of the playbook is unknown."},
		}
	case len(validated) > 0:
		return r.validationHeadline(validated)
	case len(r.Epochs) > 0 && r.Epochs[len(r.Epochs)-1].Train.N > 0:
		return r.trainingHeadline()
	}
	h := headline{To: components.Plural(r.Final.Bullets, "bullet"), What: "in the final playbook"}
	h.Detail = []string{"No sample has a label, so the quality of the playbook is unknown. Add a test set, or evaluate the playbook on one."}
	return h
}

func (r *Report) testHeadline() headline {
	h := headline{
		From: components.Percent(r.Before.Accuracy), To: components.Percent(r.After.Accuracy),
		What: "of the test set answered right, before learning and with the best playbook",
	}
	if r.Against != nil {
		h.What = fmt.Sprintf("of the test set answered right, with playbook %s and with the playbook learned from its executions", r.Against.Book)
	}
	p := r.Paired
	if p == nil || p.N == 0 {
		h.Detail = []string{fmt.Sprintf("%d of %d before, %d of %d after; no sample has a label both times.", r.Before.Right, r.Before.N, r.After.Right, r.After.N)}
		return h
	}
	h.Detail = []string{
		fmt.Sprintf("%s points (95\u00a0%% interval %s to %s) on the %s with a label both times: %s went from wrong to right and %s from right to wrong (%s, two-sided).",
			components.Points(p.Difference), components.Points(p.Low), components.Points(p.High), components.Plural(p.N, "sample"), components.Thousands(p.Wins), components.Thousands(p.Losses), pValue(p.P)),
	}
	switch {
	case p.High < 0:
		h.Detail = append(h.Detail, "The learned playbook does harm.")
	case p.Low <= 0:
		h.Detail = append(h.Detail, "The interval contains 0: this run does not show a difference.")
	}
	return h
}

// validated returns the measurements of the validation set, in order.
func (r *Report) validated() (out []Point) {
	for _, p := range r.Points {
		if p.Set == "validation" && p.Score.N > 0 {
			out = append(out, p)
		}
	}
	return out
}

func (r *Report) validationHeadline(points []Point) headline {
	best := points[len(points)-1]
	for _, p := range points {
		if p.Book.Version == r.Best.Version && p.Book.StateHash == r.Best.StateHash {
			best = p
		}
	}
	h := headline{
		To: components.Percent(best.Score.Accuracy), What: "of the validation set answered right with the best playbook",
		Detail: []string{best.Score.counted() + ". The best playbook was chosen on these samples, so this figure is too high; use a test set for an unbiased figure."},
	}
	if first := points[0]; first.Step < best.Step {
		h.From = components.Percent(first.Score.Accuracy)
		h.What = fmt.Sprintf("of the validation set answered right, after %s and with the best playbook", components.Plural(first.Step, "training sample"))
	}
	return h
}

func (r *Report) trainingHeadline() headline {
	first, last := r.Epochs[0], r.Epochs[len(r.Epochs)-1]
	h := headline{
		To: components.Percent(last.Train.Accuracy), What: "of the training samples answered right, each before learning from it",
		Detail: []string{last.Train.counted() + ", each with the playbook of that moment."},
	}
	if early, late := r.fifths(); len(r.Epochs) == 1 && early.N > 0 && late.N > 0 {
		h.Detail = append(h.Detail, fmt.Sprintf("Of the first fifth %s, of the last %s.", early.share(), late.share()))
	}
	if len(r.Epochs) > 1 && first.Train.N > 0 {
		h.From = components.Percent(first.Train.Accuracy)
		h.What = fmt.Sprintf("of the training samples answered right in epoch %d and in epoch %d", first.Epoch, last.Epoch)
		h.Detail = append(h.Detail, "After the first epoch the playbook has learned from these samples, so this is no estimate for new samples; use a test set.")
	}
	return h
}

// fifths returns the scores of the first and the last fifth of the training batches.
func (r *Report) fifths() (early, late Score) {
	var train []Score
	for _, p := range r.Points {
		if p.Set == "train" {
			train = append(train, p.Score)
		}
	}
	fifth := len(train) / 5
	return sumScores(train[:fifth]), sumScores(train[len(train)-fifth:])
}

func sumScores(scores []Score) (all Score) {
	for _, s := range scores {
		all.N += s.N
		all.Right += s.Right
	}
	all.Accuracy = finiteOr(float64(all.Right)/float64(all.N), 0)
	return all
}

// pValue formats a p-value.
func pValue(p float64) string {
	if p < 0.0001 {
		return "p\u00a0<\u00a00.0001"
	}
	return "p\u00a0=\u00a0" + strconv.FormatFloat(p, 'g', 2, 64)
}

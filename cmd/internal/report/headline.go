package report

import (
	"fmt"
	"strconv"
)

// headline is what came of a run, first of all.
type headline struct {
	From, To string // figures; From is empty where nothing is before
	What     string // the figures are of
	Detail   []string
}

// headline takes what says most of what the run measured: the test set, else the validation set, else the training
// samples as they were answered.
func (r *Report) headline() headline {
	validated := r.validated()
	switch {
	case r.After != nil && r.After.N > 0 && r.Before != nil && r.Before.N > 0:
		return r.tested()
	case r.After != nil && r.After.N > 0:
		return headline{
			To: percent(r.After.Accuracy), What: "of the test set answered right with the best playbook",
			Detail: []string{fmt.Sprintf("%d of %s. Without the playbook it was not asked, so nothing says what the playbook is worth.", r.After.Right, plural(r.After.N, "sample"))},
		}
	case len(validated) > 0:
		return r.validation(validated)
	case len(r.Epochs) > 0 && r.Epochs[len(r.Epochs)-1].Train.N > 0:
		return r.trained()
	}
	h := headline{To: plural(r.Final.Bullets, "bullet"), What: "in the final playbook"}
	h.Detail = []string{"Nothing was judged, so nothing says how good it is. Give a test set, or evaluate the playbook on one."}
	return h
}

func (r *Report) tested() headline {
	h := headline{
		From: percent(r.Before.Accuracy), To: percent(r.After.Accuracy),
		What: "of the test set answered right, without what was learned and with the best playbook",
	}
	if r.Against != nil {
		h.What = fmt.Sprintf("of the test set answered right, with playbook %s and with the one that was learned from its executions", r.Against.Book)
	}
	p := r.Paired
	if p == nil || p.N == 0 {
		h.Detail = []string{fmt.Sprintf("%d of %d before, %d of %d after; no sample was judged both times.", r.Before.Right, r.Before.N, r.After.Right, r.After.N)}
		return h
	}
	h.Detail = []string{
		fmt.Sprintf("%s points (95\u00a0%% interval %s to %s) on the %s judged both times: %s went from wrong to right and %s from right to wrong (%s, two-sided).",
			points(p.Difference), points(p.Low), points(p.High), plural(p.N, "sample"), thousands(p.Wins), thousands(p.Losses), chance(p.P)),
	}
	switch {
	case p.High < 0:
		h.Detail = append(h.Detail, "What was learned did harm.")
	case p.Low <= 0:
		h.Detail = append(h.Detail, "The interval holds 0: this run does not show a difference.")
	}
	return h
}

// validated are the measurements of the validation set, in their order.
func (r *Report) validated() (out []Point) {
	for _, p := range r.Points {
		if p.Set == "validation" && p.Score.N > 0 {
			out = append(out, p)
		}
	}
	return out
}

func (r *Report) validation(points []Point) headline {
	best := points[len(points)-1]
	for _, p := range points {
		if p.Book.Version == r.Best.Version && p.Book.StateHash == r.Best.StateHash {
			best = p
		}
	}
	h := headline{
		To: percent(best.Score.Accuracy), What: "of the validation set answered right with the best playbook",
		Detail: []string{fmt.Sprintf("%d of %s. The best playbook was chosen on these samples, which flatters it; a test set would say more.",
			best.Score.Right, plural(best.Score.N, "sample"))},
	}
	if first := points[0]; first.Step < best.Step {
		h.From = percent(first.Score.Accuracy)
		h.What = fmt.Sprintf("of the validation set answered right, after %s and with the best playbook", plural(first.Step, "training sample"))
	}
	return h
}

func (r *Report) trained() headline {
	first, last := r.Epochs[0], r.Epochs[len(r.Epochs)-1]
	h := headline{
		To: percent(last.Train.Accuracy), What: "of the training samples answered right, each before it was learned from",
		Detail: []string{fmt.Sprintf("%d of %s, each with the playbook of that moment.", last.Train.Right, plural(last.Train.N, "sample"))},
	}
	if early, late := r.fifths(); len(r.Epochs) == 1 && early.N > 0 && late.N > 0 {
		h.Detail = append(h.Detail, fmt.Sprintf("Of the first fifth %s, of the last %s.", early.share(), late.share()))
	}
	if len(r.Epochs) > 1 && first.Train.N > 0 {
		h.From = percent(first.Train.Accuracy)
		h.What = fmt.Sprintf("of the training samples answered right in epoch %d and in epoch %d", first.Epoch, last.Epoch)
		h.Detail = append(h.Detail, "After the first epoch they have been learned from before, so this does not say how new ones would fare; a test set would.")
	}
	return h
}

// fifths are how the first and the last fifth of the training batches were answered.
func (r *Report) fifths() (early, late Score) {
	var train []Score
	for _, p := range r.Points {
		if p.Set == "train" {
			train = append(train, p.Score)
		}
	}
	fifth := len(train) / 5
	return together(train[:fifth]), together(train[len(train)-fifth:])
}

func together(scores []Score) (all Score) {
	for _, s := range scores {
		all.N += s.N
		all.Right += s.Right
	}
	all.Accuracy = known(float64(all.Right)/float64(all.N), 0)
	return all
}

// chance is a p.
func chance(p float64) string {
	if p < 0.0001 {
		return "p\u00a0<\u00a00.0001"
	}
	return "p\u00a0=\u00a0" + strconv.FormatFloat(p, 'g', 2, 64)
}

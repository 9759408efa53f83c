package console

import (
	"fmt"
	"math"
	"net/url"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/train/report"
)

// curvePage is the curve of a playbook.
type curvePage struct {
	index.Curve
	Charts      []*chart // wide and narrow; empty without outcomes
	MinOutcomes int      // of a mark

	Health  *explain.Health // nil for a playbook without a version
	Figures []explain.HealthFigure
}

// minOutcomes is the minimum number of outcomes of a mark: the accuracy of fewer outcomes is mostly chance. Versions with fewer outcomes are
// pooled with their neighbours.
const minOutcomes = 20

func showCurve(q *request) (any, error) {
	q.title = "Learning curve of " + q.book
	p := &curvePage{MinOutcomes: minOutcomes}
	if err := q.get(api.Path("books", q.book, "curve"), url.Values{"limit": {"200"}}, &p.Curve); err != nil {
		return nil, err
	}
	if err := p.addHealth(q); err != nil {
		return nil, err
	}
	accuracy := accuracyMarks("accuracy", outcomesOf(p.Versions), minOutcomes)
	if len(accuracy) == 0 {
		return p, nil
	}
	total := 0
	for _, v := range p.Versions {
		total += v.Executions
	}
	p.Charts = chartSizes(chartSize{Height: 320, Axis: "executions", MaxX: total, MaxY: 100, Unit: " %"}, func(c *chart) {
		c.Label = "Accuracy in percent over executions, with 95 % intervals. The table below has the numbers."
		c.AddMarks("accuracy", blue, disc, accuracy)
	})
	return p, nil
}

// addHealth adds the health of the playbook.
func (p *curvePage) addHealth(q *request) error {
	var health explain.Health
	err := q.get(api.Path("books", q.book, "health"), url.Values{"limit": {"1"}}, &health)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	p.Health, p.Figures = &health, explain.HealthFigures(&health.Now.Health)
	return nil
}

// outcomesOf returns the outcomes of each version. The step of a version is the number of executions up to its end.
func outcomesOf(points []index.Point) (out []stepOutcomes) {
	steps := 0
	for _, v := range points {
		steps += v.Executions
		if v.Accuracy.N > 0 {
			out = append(out, stepOutcomes{step: steps, n: v.Accuracy.N, right: rightOf(v.Accuracy), at: fmt.Sprintf("version %d", *v.Version)})
		}
	}
	return out
}

// stepOutcomes are the outcomes at a step of a curve: their number n, and how many are right.
type stepOutcomes struct {
	step, n, right int
	group          int    // only neighbours of one group are pooled; all marks of a curve over versions are in group 0
	at             string // the step in words
}

// rightOf returns the number of outcomes that are a success.
func rightOf(share report.Estimate) int { return int(math.Round(share.Mean * float64(share.N))) }

// accuracyMarks returns the accuracies of a series. Neighbours are pooled until a mark has at least minimum outcomes. The last mark of a group may
// have fewer.
func accuracyMarks(name string, all []stepOutcomes, minimum int) (out []mark) {
	known, right := 0, 0 // outcomes of the next mark
	first := ""          // step where the next mark begins
	for i, m := range all {
		if known == 0 {
			first = m.at
		}
		known += m.n
		right += m.right
		endsGroup := i+1 == len(all) || all[i+1].group != m.group
		if known < minimum && !endsGroup {
			continue
		}
		at := m.at
		if first != at {
			at = first + " to " + at
		}
		share := report.Share(right, known)
		out = append(out, mark{
			Step: m.step, Value: 100 * share.Mean, Low: 100 * share.Low, High: 100 * share.High,
			Title: fmt.Sprintf("%s %s, %d of %s, 95 %% interval %s to %s, %s", name, percent(share.Mean), right, plural(known, "outcome"), percent(share.Low), percent(share.High), at),
		})
		known, right = 0, 0
	}
	return out
}

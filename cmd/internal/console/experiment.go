package console

import (
	"fmt"
	"math"
	"net/url"

	"debrief/cmd/internal/api/explain"
)

// addExperiment draws the e-values of the current wording over its outcomes, on a logarithmic scale from 1.
func (p *bulletPage) addExperiment(q *request, base string) error {
	var e explain.Experiment
	if err := q.get(base+"/experiment", url.Values{"limit": {"100"}}, &e); err != nil {
		return err
	}
	if len(e.Points) == 0 {
		return nil
	}
	last := e.Points[len(e.Points)-1]
	scale := func(value float64) float64 { return math.Log10(max(value, 1)) }
	var helps, harms []mark
	outcomes := 0 // of the last mark
	highest := scale(e.Threshold)
	for _, x := range e.Points {
		n := x.Shown.N + x.Withheld.N
		isCurrent := x.Experiment == last.Experiment // a new wording begins a new experiment
		hasNewOutcome := n != outcomes
		if !isCurrent || !hasNewOutcome {
			continue
		}
		outcomes = n
		highest = max(highest, scale(x.Helps), scale(x.Harms))
		after := fmt.Sprintf("%s, version %d", plural(n, "outcome"), x.Version)
		helps = append(helps, mark{Step: n, Value: scale(x.Helps), Title: fmt.Sprintf("helps: e-value %.3g after %s", x.Helps, after)})
		harms = append(harms, mark{Step: n, Value: scale(x.Harms), Title: fmt.Sprintf("harms: e-value %.3g after %s", x.Harms, after)})
	}
	if len(helps) == 0 {
		return nil
	}
	p.Threshold = e.Threshold
	p.Charts = chartSizes(chartSize{Height: 240, Axis: "outcomes", MaxX: outcomes, MaxY: math.Ceil(highest)}, func(c *chart) {
		c.Label = fmt.Sprintf("E-values over outcomes, on a logarithmic scale. Now %.3g that the bullet helps, %.3g that it harms; the gate decides at %g.", last.Helps, last.Harms, e.Threshold)
		for i := range c.YTicks {
			c.YTicks[i].Label = fmt.Sprintf("%g", math.Pow(10, float64(i)))
		}
		c.Levels = []tick{{At: c.Y(scale(e.Threshold)), Label: fmt.Sprintf("decision at %g", e.Threshold)}}
		c.AddMarks("evidence that it helps", blue, disc, helps)
		c.AddMarks("evidence that it harms", orange, diamond, harms)
	})
	return nil
}

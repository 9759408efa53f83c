package web

import (
	"fmt"
	"net/url"

	"debrief/cmd/internal/components"
	"debrief/cmd/internal/executions"
	"debrief/cmd/internal/stats"
)

// curvePages are the pages about the development of results.
func curvePages() []view {
	return []view{{pattern: "/books/{book}/curve", file: "curve", tab: "curve", run: showCurve}}
}

// curvePage is the curve of a playbook.
type curvePage struct {
	executions.Curve
	Charts []*components.Chart // wide and narrow; empty without outcomes
	Pooled int                 // minimum number of outcomes of a mark
}

// fewOutcomes is the minimum number of outcomes of a mark: the accuracy of fewer is mostly chance. Versions with fewer are pooled
// with their neighbours.
const fewOutcomes = 20

func showCurve(q *request) (any, error) {
	q.title = "Learning curve of " + q.book
	p := &curvePage{Pooled: fewOutcomes}
	if err := q.api.get(pathOf("books", q.book, "curve"), url.Values{"limit": {"200"}}, &p.Curve); err != nil {
		return nil, err
	}
	inject := marks(p.Versions, "with the playbook", func(c executions.Counts) *executions.Cell { return c.Inject })
	observe := marks(p.Versions, "without the playbook", func(c executions.Counts) *executions.Cell { return c.Observe })
	if len(inject)+len(observe) == 0 {
		return p, nil
	}
	total := 0
	for _, v := range p.Versions {
		total += v.Executions
	}
	for _, size := range []struct {
		class         string
		width, height float64
	}{{"wide", 940, 320}, {"narrow", 340, 240}} {
		c := components.NewChart(size.width, size.height, "executions", total, 100, " %")
		c.Class, c.Label = size.class, "Accuracy in percent over executions, with 95 % intervals. The table below has the numbers."
		c.AddMarks("with the playbook", "validation", components.Disc, inject)
		c.AddMarks("without the playbook", "test", components.Diamond, observe)
		p.Charts = append(p.Charts, c)
	}
	return p, nil
}

// marks returns the accuracies of an arm over the number of executions so far. Neighbouring versions are pooled until a mark has
// enough outcomes; the last mark may have fewer.
func marks(points []executions.Point, name string, arm func(executions.Counts) *executions.Cell) (out []components.Mark) {
	steps, known, right := 0, 0, 0
	var from, to uint64
	flush := func() {
		if known == 0 {
			return
		}
		share := stats.Share(right, known)
		out = append(out, components.Mark{
			Step: steps, Value: 100 * share.Mean, Low: 100 * share.Low, High: 100 * share.High,
			Title: fmt.Sprintf("%s %s in versions %d to %d, %s, 95 %% interval %s to %s", name, components.Percent(share.Mean), from, to, components.Plural(known, "outcome"), components.Percent(share.Low), components.Percent(share.High)),
		})
		known, right = 0, 0
	}
	for _, v := range points {
		steps += v.Executions
		c := arm(v.Counts)
		if c == nil || c.Accuracy.N == 0 {
			continue
		}
		if known == 0 {
			from = *v.Version
		}
		to = *v.Version
		known += c.Accuracy.N
		right += rightOf(c.Accuracy)
		if known >= fewOutcomes {
			flush()
		}
	}
	flush()
	return out
}

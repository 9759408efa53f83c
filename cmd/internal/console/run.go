package console

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/playbook"
)

// runPage is the page of a run of train. It has no report while the run works.
type runPage struct {
	replay.RunState
	Charts     []*chart // accuracy, wide and narrow; empty without outcomes
	MinSamples int      // training samples of a mark
}

func showRun(q *request) (any, error) {
	q.title = "Run " + q.PathValue("run")
	p := new(runPage)
	err := q.get(api.Path("runs", q.PathValue("run")), nil, &p.RunState)
	p.draw()
	return p, err
}

// WriteRun writes the page of a run as a file that needs no server: one HTML page without scripts and without links.
func WriteRun(w io.Writer, r *report.Report) error {
	p := &runPage{RunState: replay.RunState{
		Book: playbook.Book(r.Run.Book), Mode: replay.Mode(r.Mode), From: r.Run.From, Settings: r.Settings, Data: r.Data,
		Started: r.Run.Begun, Ended: r.Run.Ended, Resumed: r.Run.Resumed, Seconds: r.Timing.Seconds,
		Epoch: r.Final.Epoch, Step: r.Final.Step, Version: r.Final.Version, Report: r,
	}}
	p.draw()
	f := &frame{Title: "Run " + r.Run.Book, Static: true, Content: p}
	if err := templates()["run"].ExecuteTemplate(w, "layout", f); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// draw draws the learning curve of the report.
func (p *runPage) draw() {
	r := p.Report
	if r == nil {
		return
	}
	sets := map[string][]stepOutcomes{} // by the name of the data set
	last := 0                           // last step
	for _, x := range r.Points {
		last = max(last, x.Step)
		if x.Score.N > 0 {
			sets[x.Set] = append(sets[x.Set], stepOutcomes{step: x.Step, n: x.Score.N, right: x.Score.Right, group: x.Epoch, at: "sample " + strconv.Itoa(x.Step)})
		}
	}
	samples := 0
	for _, x := range sets["train"] {
		samples += x.n
	}
	p.MinSamples = max(minOutcomes, samples/maxMarks)
	training := accuracyMarks("training", sets["train"], p.MinSamples)
	validation := accuracyMarks("validation", sets["validation"], 1)
	test := accuracyMarks("test", sets["test"], 1)
	if len(training)+len(validation)+len(test) == 0 {
		return
	}
	p.Charts = chartSizes(chartSize{Height: 330, Axis: "training samples", MaxX: last, MaxY: 100, Unit: " %"}, func(c *chart) {
		c.Label = "Accuracy in percent over training samples, with 95 % intervals. The table below has the numbers."
		c.Spans = epochSpans(c, r.Epochs)
		if r.Learned() {
			c.Best = &tick{At: c.X(r.Best.Step), Label: "best"}
		}
		c.AddMarks("training", grey, dot, training)
		c.AddMarks("validation", blue, disc, validation)
		c.AddMarks("test", orange, diamond, test)
	})
}

// epochSpans returns the positions where the epochs begin. It returns none for one epoch, and for more epochs than have room for labels.
func epochSpans(c *chart, epochs []report.Epoch) (spans []tick) {
	const labelWidth = 56
	if len(epochs) == 1 || len(epochs) > int(c.Right-c.Left)/labelWidth {
		return nil
	}
	from := 0
	for _, e := range epochs {
		spans = append(spans, tick{At: c.X(from), Label: fmt.Sprintf("epoch %d", e.Epoch)})
		from = e.Book.Step
	}
	return spans
}

const maxMarks = 200 // limits the marks of the training samples: more cannot be distinguished on a screen

// mostShown returns the bullets that were shown most. Of equal ones the more helpful are first.
func mostShown(all []report.Bullet, limit int) []report.Bullet {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b report.Bullet) int {
		return cmp.Or(cmp.Compare(b.Shown, a.Shown), cmp.Compare(b.Helpful-b.Harmful, a.Helpful-a.Harmful))
	})
	return all[:min(len(all), limit)]
}

func showRuns(q *request) (any, error) {
	q.title = "Runs"
	all := new(api.Page[replay.RunState])
	return all, q.get("/runs", q.parameters("after"), all)
}

// comparePage compares the answers of two runs to the same samples.
type comparePage struct {
	Name   string
	With   string
	Others []string // the names of the other runs
	Why    string   // the reason why there is no comparison

	api.RunComparison
}

func (p *comparePage) Both() []api.RunAnswers { return []api.RunAnswers{p.Run, p.Other} }

// compareRuns compares a run with the run of the parameter "with", or with the newest other run.
func compareRuns(q *request) (any, error) {
	p := &comparePage{Name: q.PathValue("run"), With: q.param("with")}
	q.title = "Comparison of " + p.Name
	if err := q.get(api.Path("runs", p.Name), nil, new(replay.RunState)); err != nil {
		return nil, err
	}
	var all api.Page[replay.RunState]
	if err := q.get("/runs", url.Values{"limit": {"200"}}, &all); err != nil {
		return nil, err
	}
	for _, r := range all.Items {
		if string(r.Book) != p.Name {
			p.Others = append(p.Others, string(r.Book))
		}
	}
	if p.With == "" {
		if len(p.Others) == 0 {
			return p, nil
		}
		p.With = p.Others[0] // the newest
	}
	q.title += " with " + p.With
	err := q.get(api.Path("runs", p.Name, "compare", p.With), q.parameters(), &p.RunComparison)
	notComparable := []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}
	if slices.Contains(notComparable, api.StatusOf(err)) {
		p.Why = err.Error()
		return p, nil
	}
	return p, err
}

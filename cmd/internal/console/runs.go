package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/train/replay"
)

// runPages are the pages of the runs of train.
func runPages() []view {
	return []view{
		{pattern: "/runs", file: "runs", tab: "runs", run: showRuns},
		{pattern: "/runs/{run}", file: "run", tab: "runs", run: showRun},
		{pattern: "/runs/{run}/compare", file: "compare", tab: "runs", run: compareRuns},
	}
}

func showRuns(q *request) (any, error) {
	q.title = "Runs"
	all := new(list[replay.RunState])
	values := url.Values{"limit": {"50"}}
	if after := q.param("after"); after != "" {
		values.Set("after", after)
	}
	return all, q.api.get("/runs", values, all)
}

// comparePage compares the answers of two runs to the same samples.
type comparePage struct {
	Name   string
	With   string
	Others []string // the names of the other runs
	Why    string   // the reason why there is no comparison

	api.RunComparison
}

// Both returns the answers of both runs.
func (p *comparePage) Both() []api.RunAnswers { return []api.RunAnswers{p.Run, p.Other} }

// compareRuns compares a run with the run of the parameter "with", or with the newest other run.
func compareRuns(q *request) (any, error) {
	p := &comparePage{Name: q.PathValue("run"), With: q.param("with")}
	q.title = "Comparison of " + p.Name
	if err := q.api.get(api.Path("runs", p.Name), nil, new(replay.RunState)); err != nil {
		return nil, err
	}
	var all list[replay.RunState]
	if err := q.api.get("/runs", url.Values{"limit": {"200"}}, &all); err != nil {
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
	err := q.api.get(api.Path("runs", p.Name, "compare", p.With), url.Values{"limit": {"50"}}, p)
	var e *api.Error
	notComparable := []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}
	if errors.As(err, &e) && slices.Contains(notComparable, e.Status) {
		p.Why = e.Detail
		return p, nil
	}
	return p, err
}

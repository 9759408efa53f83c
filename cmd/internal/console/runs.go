package console

import (
	"net/http"
	"net/url"
	"slices"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/train/replay"
)

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

// Both returns the answers of both runs.
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

package console

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/playbook/history"
)

// bookPage is the list of bullets.
type bookPage struct {
	api.Page[index.BulletItem]
	Sections []string   // of the items
	Query    url.Values // parameters of the page
	States   []string
	Sorts    []option
	Filtered bool // the list may lack bullets
}

// option is an entry of a selection.
type option struct{ Value, Text string }

// bookStates are the states that the list can select.
var bookStates = []string{"shown", "active", "probation", "candidate", "quarantined", "retired"}

var bookSorts = []option{
	{"id", "by id"},
	{"lift", "highest lift first"},
	{"helpful", "most helpful votes first"},
	{"harmful", "most harmful votes first"},
	{"updated", "last changed first"},
	{"used", "last used first"},
	{"section", "by section"},
}

func showBook(q *request) (any, error) {
	q.title = "Bullets of " + q.book
	p := &bookPage{States: bookStates, Sorts: bookSorts, Query: q.parameters("q", "section", "state", "sort", "at", "after")}
	p.Filtered = slices.ContainsFunc([]string{"q", "section", "state", "at"}, p.Query.Has)
	if err := q.get(api.Path("books", q.book, "bullets"), p.Query, &p.Page); err != nil {
		return nil, err
	}
	for _, b := range p.Items {
		if !slices.Contains(p.Sections, b.Section) {
			p.Sections = append(p.Sections, b.Section)
		}
	}
	if s := p.Query.Get("section"); s != "" && !slices.Contains(p.Sections, s) {
		p.Sections = append(p.Sections, s)
	}
	slices.Sort(p.Sections)
	return p, nil
}

// bulletPage is the life of a bullet.
type bulletPage struct {
	ID      string
	Current *index.BulletItem // with the state and the record, which Life.Current does not have; nil if the bullet was removed
	Life    api.BulletLife
	// The executions behind the bullet, by what they have to do with it; see history.Role.
	Learned, Helped, Harmed, NoEffect api.Page[api.EvidenceItem]

	Charts    []*chart // e-values, wide and narrow; empty without outcomes
	Threshold float64  // e-value at which the gate decides
	Similar   api.Page[index.SimilarItem]
	Label     string // of the version of the newest event
	// Executions in which the bullet was in the prompt, newest first.
	Used api.Page[index.ExecutionItem]
}

// LearnedOutcomes counts the outcomes of the executions from which the bullet was learned, as text. It returns "" without outcomes.
func (p *bulletPage) LearnedOutcomes() string {
	var parts []string
	for _, label := range []events.Label{events.Success, events.Partial, events.Failure} {
		if n := p.Life.LearnedFrom[string(label)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s\u00a0×\u00a0%s", thousands(n), label))
		}
	}
	return strings.Join(parts, ", ")
}

// Parameters of requests for a bullet.
const (
	maxVotes    = "10" // events that only change votes and outcomes: there may be thousands
	maxEvidence = "10" // executions of each role
)

func showBullet(q *request) (any, error) {
	p := &bulletPage{ID: q.PathValue("id")}
	q.title = p.ID + " in " + q.book
	base := api.Path("books", q.book, "bullets", p.ID)
	if err := q.get(base+"/history", url.Values{"votes": {maxVotes}}, &p.Life); err != nil {
		return nil, err
	}
	if len(p.Life.Events) == 0 {
		return nil, newError(http.StatusNotFound, api.CodeNotFound, "The bullet has no history.")
	}
	slices.Reverse(p.Life.Events) // newest first
	p.Label = p.Life.Labels[p.Life.Events[0].Version]
	if p.Life.Current != nil {
		p.Current = new(index.BulletItem)
		if err := q.get(base, nil, p.Current); err != nil {
			return nil, err
		}
		if err := q.get(base+"/similar", url.Values{"limit": {"5"}}, &p.Similar); err != nil {
			return nil, err
		}
	}
	if err := p.addExperiment(q, base); err != nil {
		return nil, err
	}
	for role, into := range map[history.Role]*api.Page[api.EvidenceItem]{
		history.Learned: &p.Learned, history.Helped: &p.Helped, history.Harmed: &p.Harmed, history.NoEffect: &p.NoEffect,
	} {
		if err := q.get(base+"/evidence", url.Values{"role": {string(role)}, "limit": {maxEvidence}}, into); err != nil {
			return nil, err
		}
	}
	return p, q.get(api.Path("books", q.book, "executions"), url.Values{"bullet": {p.ID}, "limit": {"10"}}, &p.Used)
}

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
	p.Charts = chartSizes(chartSize{Height: 240, Axis: "outcomes", MaxX: outcomes, MaxY: math.Ceil(highest), Log: true}, func(c *chart) {
		c.Label = fmt.Sprintf("E-values over outcomes, on a logarithmic scale. Now %.3g that the bullet helps, %.3g that it harms; the gate decides at %g.", last.Helps, last.Harms, e.Threshold)
		c.Levels = []tick{{At: c.Y(scale(e.Threshold)), Label: fmt.Sprintf("decision at %g", e.Threshold)}}
		c.AddMarks("evidence that it helps", blue, disc, helps)
		c.AddMarks("evidence that it harms", orange, diamond, harms)
	})
	return nil
}

package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// bookPages are the pages of the bullets of a playbook.
func bookPages() []view {
	return []view{
		{pattern: "/books/{book}", file: "book", tab: "playbook", run: showBook},
		{pattern: "/books/{book}/bullets/{id}", file: "bullet", tab: "playbook", run: showBullet},
	}
}

// bullet is a bullet with its record in experiments.
type bullet struct {
	playbook.Bullet
	State  playbook.Status `json:"state"`
	Record *gate.Row       `json:"record"`
}

// Standing returns the standing of the bullet in its experiment, "" without one.
func (b *bullet) Standing() playbook.Standing {
	if b.Experiment == nil {
		return ""
	}
	return b.Experiment.Standing
}

// Lift returns the chart of the lift with its interval, nil if it was not measured.
func (b *bullet) Lift() *interval {
	if b.Record == nil {
		return nil
	}
	return lift(*b.Record)
}

// bookPage is the list of bullets.
type bookPage struct {
	list[bullet]
	Sections []string          // of the items
	Query    map[string]string // parameters of the page
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
	p := &bookPage{States: bookStates, Sorts: bookSorts, Query: map[string]string{}}
	values := url.Values{"limit": {"50"}}
	for _, name := range []string{"q", "section", "state", "sort", "at", "after"} {
		if v := q.param(name); v != "" {
			values.Set(name, v)
			p.Query[name] = v
			isFilter := name != "sort" && name != "after"
			p.Filtered = p.Filtered || isFilter
		}
	}
	if err := q.api.get(api.Path("books", q.book, "bullets"), values, &p.list); err != nil {
		return nil, err
	}
	for _, b := range p.Items {
		if !slices.Contains(p.Sections, b.Section) {
			p.Sections = append(p.Sections, b.Section)
		}
	}
	if s := p.Query["section"]; s != "" && !slices.Contains(p.Sections, s) {
		p.Sections = append(p.Sections, s)
	}
	slices.Sort(p.Sections)
	return p, nil
}

// bulletPage is the life of a bullet.
type bulletPage struct {
	ID      string
	Current *bullet // nil if it was removed
	Life    bulletLife
	// The executions behind the bullet, by what they have to do with it; see history.Role.
	Learned, Helped, Harmed, NoEffect list[evidence]

	Charts    []*chart // e-values, wide and narrow; empty without outcomes
	Threshold float64  // e-value at which the gate decides
	Similar   list[similarBullet]
	Label     string // of the version of the newest event
	// Executions in which the bullet was in the prompt, newest first.
	Used list[api.ExecutionItem]
}

// bulletLife is the history of a bullet.
type bulletLife struct {
	explain.Bullet
	Omitted int `json:"omitted_votes"` // number of older events that only change votes or outcomes
}

// maxVotes limits the events of a bullet that only change votes and outcomes: there may be thousands.
const maxVotes = "10"

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

// similarBullet is a bullet with a similar text.
type similarBullet struct {
	bullet
	Similarity float64 `json:"similarity"`
	Duplicate  bool    `json:"duplicate"`
}

// evidence is an execution behind a bullet.
type evidence struct {
	history.Supporter
	Stored *events.Execution `json:"stored"`
}

// maxEvidence limits each list of executions behind a bullet.
const maxEvidence = "10"

func showBullet(q *request) (any, error) {
	p := &bulletPage{ID: q.PathValue("id")}
	q.title = p.ID + " in " + q.book
	base := api.Path("books", q.book, "bullets", p.ID)
	if err := q.api.get(base+"/history", url.Values{"votes": {maxVotes}}, &p.Life); err != nil {
		return nil, err
	}
	if len(p.Life.Events) == 0 {
		return nil, &api.Error{Problem: api.Problem{Status: http.StatusNotFound, Detail: "The bullet has no history."}}
	}
	slices.Reverse(p.Life.Events) // newest first
	p.Label = p.Life.Labels[p.Life.Events[0].Version]
	if p.Life.Current != nil {
		p.Current = new(bullet)
		if err := q.api.get(base, nil, p.Current); err != nil {
			return nil, err
		}
		if err := q.api.get(base+"/similar", url.Values{"limit": {"5"}}, &p.Similar); err != nil {
			return nil, err
		}
	}
	if err := p.addExperiment(q, base); err != nil {
		return nil, err
	}
	for role, into := range map[history.Role]*list[evidence]{
		history.Learned: &p.Learned, history.Helped: &p.Helped, history.Harmed: &p.Harmed, history.NoEffect: &p.NoEffect,
	} {
		if err := q.api.get(base+"/evidence", url.Values{"role": {string(role)}, "limit": {maxEvidence}}, into); err != nil {
			return nil, err
		}
	}
	return p, q.api.get(api.Path("books", q.book, "executions"), url.Values{"bullet": {p.ID}, "limit": {"10"}}, &p.Used)
}

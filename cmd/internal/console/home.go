package console

import (
	"maps"
	"net/url"
	"slices"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/index"
	"debrief/events/liveness"
)

// homePage shows the health of the roles, the newest lessons, the effect of the playbooks, and the decisions that wait for a person.
type homePage struct {
	api.Overview
	Worth []*worthView // of the playbooks with the most executions
}

// Limits of the lists of the overview.
const (
	homeLessons = 6
	homeChanges = 10
	homeBooks   = 5
)

func showHome(q *request) (any, error) {
	q.title = "Overview"
	p := new(homePage)
	if err := q.get("/overview", url.Values{"limit": {"200"}}, &p.Overview); err != nil {
		return nil, err
	}
	q.overview = &p.Overview // the navigation shows it, too
	busiest := slices.SortedStableFunc(slices.Values(p.Books), func(a, b index.BookActivity) int { return b.Executions - a.Executions })
	for _, b := range busiest[:min(homeBooks, len(busiest))] {
		if b.Error != "" {
			continue // its row has the error
		}
		w, err := q.worthOf(string(b.Book))
		if isNotFound(err) {
			continue // it was erased since the list was read
		}
		if err != nil {
			return nil, err
		}
		p.Worth = append(p.Worth, w)
	}
	return p, nil
}

// Level returns the worst health of all roles, or "" before the first sample.
func (p *homePage) Level() (worst liveness.Level) {
	for _, r := range p.Roles {
		if worst == "" || severity[r.Level] > severity[worst] {
			worst = r.Level
		}
	}
	return worst
}

// severity orders the levels. All levels without an entry have the severity 0.
var severity = map[liveness.Level]int{liveness.Yellow: 1, liveness.Red: 2}

// lesson is a bullet with a new text, its state now, and the change that has it.
type lesson struct {
	index.Lesson
	index.Change
	State string
}

// Lessons returns the newest texts of bullets.
func (p *homePage) Lessons() (all []lesson) {
	for _, c := range p.Changes {
		for _, l := range c.Lessons {
			if len(all) < homeLessons {
				all = append(all, lesson{Lesson: l, Change: c, State: p.States[c.Book][l.Bullet]})
			}
		}
	}
	return all
}

func (p *homePage) Newest() []index.Change { return p.Changes[:min(homeChanges, len(p.Changes))] }

// roleOrder is the order in which the roles work.
var roleOrder = []string{"generator", "reflector", "curator"}

// InOrder returns the health of the roles in the order of their work.
func (p *homePage) InOrder() []liveness.RoleSummary { return inOrder(p.Roles) }

// inOrder returns roles in the order of their work.
func inOrder(roles map[string]liveness.RoleSummary) []liveness.RoleSummary {
	return slices.SortedFunc(maps.Values(roles), func(a, b liveness.RoleSummary) int {
		return slices.Index(roleOrder, a.Role) - slices.Index(roleOrder, b.Role)
	})
}

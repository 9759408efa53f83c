package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/index"
	"debrief/events/liveness"
)

// homePage shows the health of the roles, the newest lessons, the effect of the playbooks, and the decisions that wait for a person.
type homePage struct {
	api.Overview
	Worth  []*worthView // of the playbooks with the most executions
	Charts []*chart     // of the lag, wide and narrow; empty if no message waited
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
	q.overview = &p.Overview
	p.drawLag()
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

// lagColours are the colours of the lines of the lag, in the order of the roles.
var lagColours = []string{blue, orange, grey}

// lagMinute is the largest lag of each role in a minute.
type lagMinute struct {
	Time time.Time
	Lag  []uint64 // in the order of the roles
}

// LagMinutes returns the lag of the last hour by minute, oldest first.
func (p *homePage) LagMinutes() (all []lagMinute) {
	for _, s := range p.Lag {
		at := s.Time.Truncate(time.Minute)
		if n := len(all); n == 0 || !all[n-1].Time.Equal(at) {
			all = append(all, lagMinute{at, make([]uint64, len(roleOrder))})
		}
		last := &all[len(all)-1]
		for i, role := range roleOrder {
			last.Lag[i] = max(last.Lag[i], s.Lag[role])
		}
	}
	return all
}

// drawLag draws the lag of the last hour. It draws nothing if no message waited.
func (p *homePage) drawLag() {
	minutes := p.LagMinutes()
	largest := uint64(0)
	for _, m := range minutes {
		largest = max(largest, slices.Max(m.Lag))
	}
	if largest == 0 {
		return
	}
	began := minutes[0].Time
	since := func(m lagMinute) int { return int(m.Time.Sub(began).Minutes()) }
	end := since(minutes[len(minutes)-1]) + 1
	p.Charts = chartSizes(chartSize{Height: 200, Axis: "minutes since " + began.Format("15:04 UTC"), MaxX: end, MaxY: float64(largest)}, func(c *chart) {
		c.Label = fmt.Sprintf("Events that wait or are in progress, by role, at most %d. The table below has the numbers.", largest)
		for i, role := range roleOrder {
			var marks []mark
			for _, m := range minutes {
				marks = append(marks, mark{Step: since(m), Value: float64(m.Lag[i])})
			}
			marks = append(marks, mark{Step: end, Value: marks[len(marks)-1].Value}) // the last value holds until the end
			c.AddLine(role, lagColours[i], marks)
		}
	})
}

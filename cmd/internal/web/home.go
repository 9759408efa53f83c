package web

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"debrief/cmd/internal/activity"
	"debrief/cmd/internal/components"
	"debrief/events/liveness"
)

// homePages are the pages about the whole installation at a glance.
func homePages() []view {
	return []view{{pattern: "/{$}", file: "home", tab: "home", run: showHome}}
}

// homePage shows what is healthy, what was learned, and what waits for a person.
type homePage struct {
	Learned struct {
		Versions int `json:"versions"`
		activity.Counts
	} `json:"learned"`
	Changes []activity.Change               `json:"changes"`
	Lag     []activity.Sample               `json:"lag"`
	Roles   map[string]liveness.RoleSummary `json:"roles"`
	Waiting struct {
		Total int `json:"total"`
		Dead  int `json:"dead_letters"`
	} `json:"waiting"`
	Books  []bookState         `json:"books"`
	Charts []*components.Chart `json:"-"` // of the lag, wide and narrow
}

// bookState has the numbers of a playbook.
type bookState struct {
	Book        string `json:"book"`
	Bullets     int    `json:"bullets"`
	Shown       int    `json:"shown"`
	Probation   int    `json:"probation"`
	Quarantined int    `json:"quarantined"`
	Executions  int    `json:"executions"`
	Error       string `json:"error"`
}

func showHome(q *request) (any, error) {
	q.title = "Overview"
	p := new(homePage)
	if err := q.api.get("/overview", url.Values{"limit": {"15"}}, p); err != nil {
		return nil, err
	}
	q.books = []string{}
	for _, b := range p.Books[:min(len(p.Books), maxBookLinks)] {
		q.books = append(q.books, b.Book)
	}
	p.drawLag()
	return p, nil
}

// roleOrder is the order in which the roles work.
var roleOrder = []string{"generator", "reflector", "curator"}

// InOrder returns the health of the roles in the order of their work.
func (p *homePage) InOrder() (all []liveness.RoleSummary) {
	for _, name := range roleOrder {
		if r, ok := p.Roles[name]; ok {
			all = append(all, r)
		}
	}
	return all
}

// lagLines are the classes and the shapes of the lines of the lag, in the order of the roles.
var lagLines = []struct{ class, shape string }{{"validation", components.Disc}, {"test", components.Diamond}, {"train", components.Dot}}

// drawLag draws the lag of the last hour.
func (p *homePage) drawLag() {
	if len(p.Lag) < 2 {
		return
	}
	began, most := p.Lag[0].Time, uint64(1)
	for _, s := range p.Lag {
		for _, n := range s.Lag {
			most = max(most, n)
		}
	}
	minutes := func(s activity.Sample) int { return int(s.Time.Sub(began).Minutes()) }
	for _, size := range []struct {
		class         string
		width, height float64
	}{{"wide", 940, 220}, {"narrow", 340, 200}} {
		c := components.NewChart(size.width, size.height, "minutes since "+began.Format("15:04 UTC"), max(minutes(p.Lag[len(p.Lag)-1]), 1), float64(most), "")
		c.Class, c.Label = size.class, fmt.Sprintf("Events that wait or are in progress, by role, at most %d.", most)
		for i, role := range roleOrder {
			var marks []components.Mark
			for _, s := range p.Lag {
				n := s.Lag[role]
				marks = append(marks, components.Mark{Step: minutes(s), Value: float64(n), Title: fmt.Sprintf("%s: %s waited %s", role, components.Plural(int(n), "event"), s.Time.Format(time.TimeOnly))})
			}
			c.AddMarks(role, lagLines[i].class, lagLines[i].shape, marks)
		}
		p.Charts = append(p.Charts, c)
	}
}

// capital returns a word with a capital letter.
func capital(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

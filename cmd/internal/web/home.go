package web

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"debrief/playbook/history"
)

// homePages are the pages about the whole installation at a glance.
func homePages() []view {
	return []view{{pattern: "/{$}", file: "home", tab: "home", run: showHome}}
}

// homePage shows what is healthy, what was learned, and what waits for a person.
type homePage struct {
	status
	Changes []change // newest of all playbooks first
	Learned int      // changes in the last hour
	More    bool     // there were more than Learned
	Waiting []waiting
	Dead    int
	DeadAll bool // there are no more than Dead
}

// change is a version of a playbook.
type change struct {
	Book string
	version
}

// waiting is a playbook with bullets that wait for a person.
type waiting struct {
	Book string
	N    int
	All  bool // there are no more than N
}

// Limits of the overview.
const (
	homeBooks   = 20
	homeChanges = 15
	homeItems   = 100
)

func showHome(q *request) (any, error) {
	q.title = "Overview"
	p := new(homePage)
	if err := q.api.get("/status", nil, &p.status); err != nil {
		return nil, err
	}
	hourAgo := time.Now().Add(-time.Hour)
	for _, b := range p.Books[:min(len(p.Books), homeBooks)] {
		if b.Error != "" {
			continue
		}
		if err := p.addBook(q, string(b.Book), hourAgo); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.Changes, func(a, b change) int { return b.Time.Compare(a.Time) })
	p.Changes = p.Changes[:min(len(p.Changes), homeChanges)]
	var dead list[struct{}]
	if err := q.api.get("/dead", url.Values{"limit": {"100"}}, &dead); err != nil {
		return nil, err
	}
	p.Dead, p.DeadAll = len(dead.Items), dead.Next == ""
	return p, nil
}

// addBook adds the newest changes of a playbook and the bullets that wait for a person.
func (p *homePage) addBook(q *request, book string, hourAgo time.Time) error {
	var newest list[version]
	if err := q.api.get(pathOf("books", book, "versions"), url.Values{"limit": {"100"}}, &newest); err != nil {
		return err
	}
	for i, v := range newest.Items {
		if v.Time.After(hourAgo) {
			p.Learned++
			p.More = p.More || i == len(newest.Items)-1 && newest.Next != ""
		}
		if i < homeChanges {
			p.Changes = append(p.Changes, change{book, v})
		}
	}
	var held list[*history.Quarantined]
	if err := q.api.get(pathOf("books", book, "review"), url.Values{"limit": {"100"}}, &held); err != nil {
		return err
	}
	if n := len(held.Items); n > 0 {
		p.Waiting = append(p.Waiting, waiting{book, n, held.Next == ""})
	}
	return nil
}

// InOrder returns the roles in the order of their work.
func (p *homePage) InOrder() (all []role) {
	for _, name := range []string{"generator", "reflector", "curator"} {
		if r, ok := p.Roles[name]; ok {
			all = append(all, role{strings.ToUpper(name[:1]) + name[1:], string(r.Level), r.Pending, r.Workers, r.LastOutput, r.Reasons})
		}
	}
	return all
}

// role is the health of a role.
type role struct {
	Name    string
	Level   string
	Pending uint64
	Workers int
	Last    time.Time
	Reasons []string
}

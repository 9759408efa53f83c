package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/playbook"
	"debrief/playbook/history"
)

// versionsPage is a list of versions, newest first.
type versionsPage struct {
	api.Page[index.Version]
	First bool // the list begins with the newest version
	All   bool // the list also has the versions that only change votes and outcomes
}

// Newest reports whether an item is the newest version.
func (p *versionsPage) Newest(i int) bool { return p.First && i == 0 }

// Past returns points in time for a restore, at which the playbook existed. If there is a further page, the time of the first version is
// not known here, and it returns all of them.
func (p *versionsPage) Past() (all []option) {
	for _, o := range []struct {
		hours int
		text  string
	}{{1, "an hour ago"}, {24, "yesterday at this time"}, {7 * 24, "a week ago"}} {
		then := time.Now().Add(-time.Duration(o.hours) * time.Hour)
		existed := p.Next != "" || slices.ContainsFunc(p.Items, func(v index.Version) bool { return !v.Time.After(then) })
		if existed {
			all = append(all, option{fmt.Sprintf("%dh", o.hours), o.text})
		}
	}
	return all
}

func showVersions(q *request) (any, error) {
	q.title = "Versions of " + q.book
	all := &versionsPage{First: q.param("after") == "", All: q.param("changes") == "all"}
	values := q.parameters("after")
	if !all.All {
		values.Set("changes", "bullets")
	}
	return all, q.get(api.Path("books", q.book, "versions"), values, &all.Page)
}

// versionPage is a version with its operations.
type versionPage struct{ api.VersionDetails }

func (p *versionPage) Number() uint64 { return p.Version.Version }

// Operations are the changes of the version, in words.
func (p *versionPage) Operations() (all []operation) {
	for i := range p.Delta.Ops {
		op := &p.Delta.Ops[i]
		all = append(all, operation{op.Bullet, explain.DescribeEvent(&history.Event{Kind: op.Kind, Bullet: op.Bullet, Op: *op, Author: p.Author}, op.Bullet), op.Reason})
	}
	return all
}

// operation is a change of a bullet in words.
type operation struct {
	Bullet playbook.BulletID
	Text   string
	Reason string
}

func (p *versionPage) Previous() uint64 { return p.Number() - 1 }

func showVersion(q *request) (any, error) {
	p := new(versionPage)
	q.title = "Version " + q.PathValue("version") + " of " + q.book
	return p, q.get(api.Path("books", q.book, "versions", q.PathValue("version")), nil, p)
}

// diffPage has the bullets that differ between two versions.
type diffPage struct {
	From, To string
	Items    []difference
}

// difference is a bullet in two versions.
type difference struct{ history.Difference }

// Bullet returns the bullet of the newer version, else the bullet of the older version.
func (d difference) Bullet() *playbook.Bullet {
	if d.After != nil {
		return d.After
	}
	return d.Before
}

// Notes are the differences of the fields that people compare, besides the text.
func (d difference) Notes() string {
	if d.Before == nil || d.After == nil {
		return ""
	}
	return strings.Join(explain.FieldChanges(d.Before, d.After), ", ")
}

func showDiff(q *request) (any, error) {
	p := new(diffPage)
	q.title = "Difference of versions of " + q.book
	return p, q.get(api.Path("books", q.book, "diff"), url.Values{"from": {q.param("from")}, "to": {q.param("to")}}, p)
}

// showRestore previews the changes of a restore.
func showRestore(q *request) (any, error) {
	q.title = "Restore " + q.book
	var at api.BookState
	if err := q.get(api.Path("books", q.book), url.Values{"at": {q.param("to")}}, &at); err != nil {
		return nil, err
	}
	to := fmt.Sprint(at.Version) // "24h" would mean a later version by the time that the button is pressed
	var preview struct {
		Label   string       `json:"label"`
		Changes []difference `json:"changes"`
	}
	if err := q.post(api.Path("books", q.book, "edits"), "", object{"restore": to, "dry_run": true}, &preview); err != nil {
		return nil, err
	}
	return &diffPage{From: preview.Label, To: to, Items: preview.Changes}, nil
}

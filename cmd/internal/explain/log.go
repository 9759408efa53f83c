package explain

import (
	"slices"
	"strings"

	"debrief/events/deltalog"

	book "debrief/playbook"
)

// Log collects the newest changes of a log and the names of versions.
type Log struct {
	Limit     int  // maximum number of changes; 0 for all
	NamesOnly bool // collect only the changes that named a version

	newest []*deltalog.Record // oldest first
	names  map[uint64][]string
}

// Add adds the next record of the log. It returns no error; its signature is that of a reader of the log.
func (l *Log) Add(r *deltalog.Record) error {
	l.addNames(r.Names)
	if l.NamesOnly && len(r.Names) == 0 {
		return nil
	}
	if l.newest = append(l.newest, r); l.Limit > 0 && len(l.newest) > l.Limit {
		l.newest = l.newest[1:]
	}
	return nil
}

// addNames gives names to versions. A name belongs to the version that got it last.
func (l *Log) addNames(names []book.Name) {
	if l.names == nil {
		l.names = map[uint64][]string{}
	}
	for _, n := range names {
		for v, list := range l.names {
			l.names[v] = slices.DeleteFunc(list, func(s string) bool { return s == n.Name })
		}
		l.names[n.Version] = append(l.names[n.Version], n.Name)
	}
}

// Changes returns the collected changes, newest first.
func (l *Log) Changes() []Change {
	var all []Change
	for _, r := range slices.Backward(l.newest) {
		all = append(all, Change{r, l.names[r.Version]})
	}
	return all
}

// Change is a change in a log, with the names that its version has now.
type Change struct {
	*deltalog.Record
	VersionNames []string
}

// Label returns the label of the version, such as 17@ab12cd.
func (c Change) Label() string { return book.VersionLabel(c.Version, c.Chain) }

// Title returns the label and the names of the version, separated by spaces.
func (c Change) Title() string {
	return strings.Join(append([]string{c.Label()}, c.VersionNames...), " ")
}

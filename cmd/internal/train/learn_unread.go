package train

import (
	"errors"
	"io/fs"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/runs"
)

// unreadItem is a part of a file that was not read, or was read after a repair.
type unreadItem struct {
	File    string `json:"file"`
	Line    *int   `json:"line,omitempty"`
	Element *int   `json:"element,omitempty"`
	Problem string `json:"problem,omitempty"`
	Repair  string `json:"repair,omitempty"`
	noFile  bool   // a link to a directory, a pipe or the like: it is listed and is no loss
}

// maxListed limits the list of unread items in the result. The counts include all of them.
const maxListed = 100

func newUnreadItem(file string, p runs.Problem) unreadItem {
	u := unreadItem{File: file, Problem: p.Reason}
	if p.Line > 0 {
		u.Line = &p.Line
	} else {
		u.Element = &p.Index
	}
	return u
}

// reasonOf returns the text of an error without the name of its file. The caller prints the name before it.
func reasonOf(err error) string {
	if inPath, ok := errors.AsType[*fs.PathError](err); ok {
		return inPath.Op + ": " + inPath.Err.Error()
	}
	return err.Error()
}

// unread returns the numbers of runs and files that could not be read, "" if all were read.
func (r *learnResult) unread() string {
	var parts []string
	if r.Unread > 0 {
		parts = append(parts, term.Plural(r.Unread, "run"))
	}
	if r.BadFiles > 0 {
		parts = append(parts, term.Plural(r.BadFiles, "file"))
	}
	return strings.Join(parts, " and ")
}

// losses describes the unread data and the dead letters, "" without any.
func (r *learnResult) losses() string {
	var parts []string
	if unread := r.unread(); unread != "" {
		parts = append(parts, unread+" could not be read")
	}
	if r.Dead > 0 {
		parts = append(parts, pluralOf(r.Dead, "run became a dead letter", "runs became dead letters"))
	}
	return strings.Join(parts, ", ")
}

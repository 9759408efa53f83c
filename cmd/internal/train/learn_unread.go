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
	other   bool   // an entry of a directory other than a file: not a loss
}

// maxListed is the maximum length of the list of unread items. The count includes all of them.
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

// reasonOf returns the text of an error of a file without the name of the file, which is shown before it.
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

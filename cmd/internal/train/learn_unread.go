package train

import (
	"fmt"

	"debrief/cmd/internal/traces"
)

// unreadItem is a part of a file that was not read, or was read after a repair.
type unreadItem struct {
	File    string `json:"file"`
	Line    *int   `json:"line,omitempty"`
	Element *int   `json:"element,omitempty"`
	Problem string `json:"problem,omitempty"`
	Repair  string `json:"repair,omitempty"`
}

// maxListed is the maximum length of the list of unread items. The count includes all of them.
const maxListed = 100

func (u unreadItem) String() string {
	if u.Line != nil {
		return fmt.Sprintf("%s, line %d: %s", u.File, *u.Line, u.Problem)
	}
	if u.Element != nil {
		return fmt.Sprintf("%s, element %d: %s", u.File, *u.Element, u.Problem)
	}
	return u.File + ": " + u.Problem
}

func newUnreadItem(file string, p traces.Problem) unreadItem {
	u := unreadItem{File: file, Problem: p.Reason}
	if p.Line > 0 {
		u.Line = &p.Line
	} else {
		u.Element = &p.Index
	}
	return u
}

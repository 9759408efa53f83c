package main

import (
	"fmt"

	"debrief/cmd/internal/traces"
)

// unread is what was not read of a file, or was read after a repair.
type unread struct {
	File    string `json:"file"`
	Line    *int   `json:"line,omitempty"`
	Element *int   `json:"element,omitempty"`
	Problem string `json:"problem,omitempty"`
	Repair  string `json:"repair,omitempty"`
}

// maxListed bounds the list of what was not read; the count has it all.
const maxListed = 100

func (u unread) String() string {
	if u.Line != nil {
		return fmt.Sprintf("%s, line %d: %s", u.File, *u.Line, u.Problem)
	}
	if u.Element != nil {
		return fmt.Sprintf("%s, element %d: %s", u.File, *u.Element, u.Problem)
	}
	return u.File + ": " + u.Problem
}

func newUnread(file string, p traces.Problem) unread {
	u := unread{File: file, Problem: p.Reason}
	if p.Line > 0 {
		u.Line = &p.Line
	} else {
		u.Element = &p.Index
	}
	return u
}

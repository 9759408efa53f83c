package text

import (
	"strings"
	"unicode"
)

// A long list has at least minListItems items in a row, each with at most maxItemBytes bytes and maxItemWords words.
const (
	minListItems = 20
	maxItemBytes = 160
	maxItemWords = 4
)

// WithoutLists returns a text with an [Ellipsis] in place of each long list of names, such as the options of a classification. Such a list has the
// words of every answer, so a search for a task by all of its words finds the tasks with any answer. Commas or semicolons separate the
// items. The first and the last item stay, because the text around the list belongs to them. Lists of numbers, quotations, JSON, rows of a
// table and scripts without spaces stay.
func WithoutLists(s string) string {
	if strings.Count(s, ",")+strings.Count(s, ";") <= minListItems {
		return s
	}
	var out strings.Builder
	done := 0            // s[:done] is in out
	start, items := 0, 0 // the first of the inner items of the list so far, and their number
	previous := len(s)   // position of the separator before the next item
	finish := func(end int) {
		if items >= minListItems {
			out.WriteString(s[done:start] + " " + Ellipsis + " ")
			done = end
		}
		items = 0
	}
	for i := range len(s) {
		if s[i] != ',' && s[i] != ';' {
			continue
		}
		if previous < i {
			if isName(s[previous+1 : i]) {
				if items == 0 {
					start = previous + 1
				}
				items++
			} else {
				finish(previous)
			}
		}
		previous = i
	}
	finish(previous)
	return out.String() + s[done:]
}

// isName reports whether an item of a list is a short name.
func isName(item string) bool {
	if len(item) > maxItemBytes || len(strings.Fields(item)) > maxItemWords {
		return false
	}
	hasLetter := false
	for _, r := range item {
		switch {
		case strings.ContainsRune("\n\"':={}[]|!?", r), Unspaced(r):
			return false
		case unicode.IsLetter(r):
			hasLetter = true
		}
	}
	return hasLetter && !strings.Contains(item, ". ")
}

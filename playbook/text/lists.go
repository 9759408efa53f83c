package text

import "strings"

// A long list has at least minListItems items in a row, each with at most maxItemBytes bytes and maxItemWords words.
const (
	minListItems = 20
	maxItemBytes = 160
	maxItemWords = 4
)

// WithoutLists returns a text with an [Ellipsis] in place of each long list, such as the options of a classification. Such a list has the
// words of every answer, so a search for a task by all of its words finds the tasks with any answer. Commas, semicolons or vertical bars
// separate the items. The first and the last item stay, because the text around the list belongs to them.
func WithoutLists(s string) string {
	var out strings.Builder
	done := 0                // s[:done] is in out
	start, end := -1, -1     // of the inner items of the list so far; start is -1 without a list
	items, previous := 0, -1 // number of these items, and the position of the separator before the next item
	finish := func() {
		if items >= minListItems {
			out.WriteString(s[done:start])
			out.WriteString(" " + Ellipsis + " ")
			done = end
		}
		start, items = -1, 0
	}
	for i := range len(s) {
		if s[i] != ',' && s[i] != ';' && s[i] != '|' {
			continue
		}
		if previous >= 0 {
			item := s[previous+1 : i]
			if len(item) <= maxItemBytes && len(strings.Fields(item)) <= maxItemWords {
				if start < 0 {
					start = previous + 1
				}
				items, end = items+1, i
			} else {
				finish()
			}
		}
		previous = i
	}
	finish()
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

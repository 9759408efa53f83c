package app

import (
	"fmt"
	"strings"
)

// suggestion returns " (did you mean NAME?)" for the known name that is most similar to an unknown one, "" if none is similar.
// A similar name has one wrong character, and another one for each four characters.
func suggestion(name string, known []string) string {
	best, found := 2+len(strings.TrimPrefix(name, variablePrefix))/4, ""
	for _, k := range known {
		if d := distance(name, k); d < best {
			best, found = d, k
		}
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", found)
}

// distance returns the number of insertions, deletions and replacements of bytes between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

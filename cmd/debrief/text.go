package main

import (
	"slices"
	"strings"

	book "debrief/playbook"
)

// bySection sorts bullets by section, best first.
func bySection(bullets []*book.Bullet) []*book.Bullet {
	out := slices.Clone(bullets)
	slices.SortStableFunc(out, func(a, b *book.Bullet) int {
		return strings.Compare(a.Section, b.Section)
	})
	return out
}

// wrap breaks text into lines of at most so many characters, at spaces; lines it has it keeps.
func wrap(text string, width int) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		n := 0
		var b strings.Builder
		for _, word := range strings.Fields(line) {
			l := len([]rune(word))
			if n > 0 && n+1+l > width {
				out = append(out, b.String())
				b.Reset()
				n = 0
			}
			if n > 0 {
				b.WriteByte(' ')
				n++
			}
			b.WriteString(word)
			n += l
		}
		out = append(out, b.String())
	}
	return strings.Join(out, "\n")
}

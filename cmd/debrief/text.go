package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

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

// oneLineOf keeps what a model said from moving the rest about.
func oneLineOf(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\ufffd"), func(c rune) bool { return unicode.IsSpace(c) || commands(c) }), " ")
}

// inert is text of anybody's for a terminal: lines stay, and what could command a terminal or turn the reading
// direction is written as JSON would escape it, so that JSON stays JSON.
func inert(s string) string {
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(s, "\ufffd") {
		if c != '\n' && c != '\t' && commands(c) {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// commands reports whether a terminal would do something at the character instead of showing it.
func commands(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) }

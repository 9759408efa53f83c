package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"debrief/cmd/internal/console"

	book "debrief/playbook"
)

// sortBySection returns the bullets sorted by section. It keeps their order within a section.
func sortBySection(bullets []*book.Bullet) []*book.Bullet {
	out := slices.Clone(bullets)
	slices.SortStableFunc(out, func(a, b *book.Bullet) int {
		return strings.Compare(a.Section, b.Section)
	})
	return out
}

// wrap breaks lines at spaces to at most width characters. It keeps existing line breaks.
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

// Plural returns a number with its noun, which forms its plural with s.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OneLine returns the beginning of text on one line, with at most limit characters. The limit must be at least 1.
func OneLine(text string, limit int) string {
	r := []rune(console.Line(text))
	if len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return string(r)
}

// FormatBullets formats bullets as a table, by section.
func FormatBullets(bullets []*book.Bullet) string {
	if len(bullets) == 0 {
		return "The playbook is empty.\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	section := ""
	for _, b := range sortBySection(bullets) {
		if b.Section != section {
			section = b.Section
			console.Fprintf(w, "%s\thelpful\tharmful\t\n", book.SectionTitle(section))
		}
		lines := strings.Split(wrap(b.Content, 88), "\n")
		console.Fprintf(w, "  %s%s\t%d\t%d\t%s\n", b.ID, mark(b), b.Helpful, b.Harmful, lines[0])
		for _, l := range lines[1:] {
			console.Fprintf(w, "\t\t\t%s\n", l)
		}
	}
	_ = w.Flush()
	return out.String()
}

// mark returns the pin or the status of a bullet, "" for an active one without a pin.
func mark(b *book.Bullet) string {
	switch {
	case b.Pinned:
		return " (pinned)"
	case !b.Shown():
		return " (" + string(b.Status) + ")"
	}
	return ""
}

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

// FormatStats formats the statistics of a playbook as a table.
func FormatStats(s book.Stats) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(name string, n int, note string) { console.Fprintf(w, "  %s\t%d\t%s\n", name, n, note) }
	console.Fprintf(w, "status\tbullets\t\n")
	for _, status := range []book.Status{book.Active, book.Probation, book.Candidate, book.Quarantined, book.Retired} {
		if n := s.ByStatus[status]; n > 0 {
			row(string(status), n, "")
		}
	}
	row("total", s.Total, "")
	console.Fprintf(w, "votes of active bullets\tbullets\t\n")
	row("high performing", s.HighPerforming, "helpful > 5, harmful < 2")
	row("problematic", s.Problematic, "harmful > 0, harmful >= helpful")
	row("unused", s.Unused, "no vote")
	console.Fprintf(w, "section of active bullets\tbullets\t\n")
	for _, of := range s.Sections {
		row(book.SectionTitle(of.Section), of.Bullets, fmt.Sprintf("helpful %d, harmful %d", of.Helpful, of.Harmful))
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

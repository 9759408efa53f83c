package cli

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/program/term"

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

// wrap breaks lines at spaces to at most width columns. It keeps existing line breaks.
func wrap(text string, width int) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, term.Wrap(line, width, true)...)
	}
	return lines
}

// bulletText is the maximum width of the text of a bullet in a table. narrow is the width below which its text gets lines of its
// own.
const (
	bulletText = 88
	narrow     = 72
)

// FormatBullets formats bullets as a table, by section, for a width of the output, 0 for any.
func FormatBullets(bullets []*book.Bullet, width int) string {
	if len(bullets) == 0 {
		return "The playbook is empty.\n"
	}
	if width > 0 && width < narrow {
		return narrowBullets(bullets, width)
	}
	limit := bulletText
	if width > 0 {
		longest := 0
		for _, b := range bullets {
			longest = max(longest, len(b.ID)+len(mark(b)), len(book.SectionTitle(b.Section)))
		}
		limit = min(limit, max(width-longest-22, 20)) // the two columns of votes, and the spaces between
	}
	var out strings.Builder
	w := &term.Table{Out: &out, Plain: true}
	section := ""
	for _, b := range sortBySection(bullets) {
		if b.Section != section {
			section = b.Section
			term.Fprintf(w, "%s\thelpful\tharmful\t\n", book.SectionTitle(section))
		}
		lines := wrap(b.Content, limit)
		term.Fprintf(w, "  %s%s\t%d\t%d\t%s\n", b.ID, mark(b), b.Helpful, b.Harmful, lines[0])
		for _, l := range lines[1:] {
			term.Fprintf(w, "\t\t\t%s\n", l)
		}
	}
	_ = w.Flush()
	return out.String()
}

// FormatStats formats the statistics of a playbook as a table.
func FormatStats(s book.Stats) string {
	var out strings.Builder
	w := &term.Table{Out: &out, Plain: true}
	row := func(name string, n int, note string) { term.Fprintf(w, "  %s\t%d\t%s\n", name, n, note) }
	term.Fprintf(w, "status\tbullets\t\n")
	for _, status := range []book.Status{book.Active, book.Probation, book.Candidate, book.Quarantined, book.Retired} {
		if n := s.ByStatus[status]; n > 0 {
			row(string(status), n, "")
		}
	}
	row("total", s.Total, "")
	term.Fprintf(w, "votes of active bullets\tbullets\t\n")
	row("high performing", s.HighPerforming, "helpful > 5, harmful < 2")
	row("problematic", s.Problematic, "harmful > 0, harmful >= helpful")
	row("unused", s.Unused, "no vote")
	term.Fprintf(w, "section of active bullets\tbullets\t\n")
	for _, of := range s.Sections {
		row(book.SectionTitle(of.Section), of.Bullets, fmt.Sprintf("helpful %d, harmful %d", of.Helpful, of.Harmful))
	}
	_ = w.Flush()
	return out.String()
}

// narrowBullets formats bullets with their text below their id and votes.
func narrowBullets(bullets []*book.Bullet, width int) string {
	var out strings.Builder
	section := ""
	for _, b := range sortBySection(bullets) {
		if b.Section != section {
			section = b.Section
			term.Fprintf(&out, "%s\n", book.SectionTitle(section))
		}
		term.Fprintf(&out, "  %s%s  helpful %d, harmful %d\n", b.ID, mark(b), b.Helpful, b.Harmful)
		for _, line := range wrap(b.Content, max(width-4, 20)) {
			term.Fprintf(&out, "    %s\n", line)
		}
	}
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

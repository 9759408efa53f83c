package cli

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/playbook"
)

// BookFlags has the flags of a command on one playbook.
type BookFlags struct {
	NATSFlags
	Book string `help:"Name of the playbook." default:"default"`
}

// NotFoundError is the error for an unknown playbook.
func NotFoundError(name playbook.Book, known []playbook.Book) error {
	if len(known) == 0 {
		return fmt.Errorf("playbook %q: not found, and there are no playbooks: create one with 'debrief learn FILE', or submit tasks to 'debrief up'", name)
	}
	return fmt.Errorf("playbook %q: not found; select one of these: %s", name, term.Join(known))
}

// maxBulletText and minBulletText limit the width of the text of a bullet in a table, otherColumns is the width of the columns
// before it.
const (
	maxBulletText = 88
	minBulletText = 20
	otherColumns  = 40
)

// FormatBullets formats bullets as a table, by section. The width is that of the output, 0 if it has none.
func FormatBullets(bullets []*playbook.Bullet, width int) string {
	if len(bullets) == 0 {
		return "The playbook is empty.\n"
	}
	limit := maxBulletText
	if width > 0 {
		limit = min(maxBulletText, max(width-otherColumns, minBulletText))
	}
	bySection := slices.Clone(bullets)
	slices.SortStableFunc(bySection, func(a, b *playbook.Bullet) int { return strings.Compare(a.Section, b.Section) })
	var out strings.Builder
	w := term.NewTable(&out)
	section := ""
	for _, b := range bySection {
		if b.Section != section {
			section = b.Section
			term.Fprintf(w, "%s\thelpful\tharmful\t\n", playbook.SectionTitle(section))
		}
		columns := fmt.Sprintf("  %s\t%d\t%d", term.Line(string(b.ID)+mark(b)), b.Helpful, b.Harmful)
		for paragraph := range strings.SplitSeq(b.Content, "\n") {
			for _, line := range term.Wrap(paragraph, limit) {
				term.Fprintf(w, "%s\t%s\n", term.Block(columns), line)
				columns = "\t\t" // empty before the further lines of the text
			}
		}
	}
	_ = w.Flush()
	return out.String()
}

// FormatStats formats the statistics of a playbook as a table.
func FormatStats(s playbook.Stats) string {
	var out strings.Builder
	w := term.NewTable(&out)
	row := func(name string, n int, note string) { term.Fprintf(w, "  %s\t%d\t%s\n", name, n, note) }
	term.Fprintf(w, "status\tbullets\t\n")
	for _, status := range []playbook.Status{playbook.Active, playbook.Probation, playbook.Candidate, playbook.Quarantined, playbook.Retired} {
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
	for _, section := range s.Sections {
		row(playbook.SectionTitle(section.Section), section.Bullets, fmt.Sprintf("helpful %d, harmful %d", section.Helpful, section.Harmful))
	}
	_ = w.Flush()
	return out.String()
}

// mark returns the pin or the status of a bullet, "" for an active one without a pin.
func mark(b *playbook.Bullet) string {
	switch {
	case b.Pinned:
		return " (pinned)"
	case !b.Shown():
		return " (" + string(b.Status) + ")"
	}
	return ""
}

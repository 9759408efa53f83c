package cli

import (
	"fmt"
	"io"
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

// PrintBullets prints bullets as a table, by section.
func PrintBullets(out io.Writer, bullets []*playbook.Bullet) error {
	if len(bullets) == 0 {
		_, err := term.Fprintln(out, "The playbook is empty.")
		return err
	}
	bySection := slices.Clone(bullets)
	slices.SortStableFunc(bySection, func(a, b *playbook.Bullet) int { return strings.Compare(a.Section, b.Section) })
	w := term.NewTable(out)
	section := ""
	for _, b := range bySection {
		if b.Section != section {
			section = b.Section
			term.Fprintf(w, "%s\thelpful\tharmful\t\n", playbook.SectionTitle(section))
		}
		term.Fprintf(w, "  %s\t%d\t%d\t%s\n", string(b.ID)+mark(b), b.Helpful, b.Harmful, b.Content)
	}
	return w.Flush()
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

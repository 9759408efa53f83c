package explain

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// Differences formats each difference in lines with the marks +, - and ~. The last line has their number and then the text end. It has no line
// break.
func Differences(all []history.Difference, end string) string {
	var out strings.Builder
	var added, removed, changed int
	for _, d := range all {
		switch {
		case d.Before == nil:
			added++
			out.WriteString(Marked("+ ", FullText(d.After)))
		case d.After == nil:
			removed++
			out.WriteString(Marked("- ", FullText(d.Before)))
		default:
			changed++
			out.WriteString(difference(d.Before, d.After))
		}
	}
	total := "No bullet differs."
	if len(all) > 0 {
		total = fmt.Sprintf("%d added, %d removed, %d changed.", added, removed, changed)
	}
	out.WriteString(term.Line(strings.TrimSpace(total + " " + end)))
	return out.String()
}

// difference formats the changes of one bullet.
func difference(was, is *book.Bullet) string {
	var out strings.Builder
	term.Fprintf(&out, "~ %s", is.ID)
	pair := func(field string, a, b any) {
		if a != b {
			term.Fprintf(&out, "  %s: %v → %v", field, a, b)
		}
	}
	pair("section", was.Section, is.Section)
	pair("helpful", was.Helpful, is.Helpful)
	pair("harmful", was.Harmful, is.Harmful)
	pair("neutral", was.Neutral, is.Neutral)
	pair("status", Status(was), Status(is))
	pair("pinned", was.Pinned, is.Pinned)
	out.WriteString("\n")
	if was.Content != is.Content {
		out.WriteString(Marked("  - ", was.Content) + Marked("  + ", is.Content))
	}
	return out.String()
}

// Conflict describes how a bullet changed since the author of an edit read it.
func Conflict(was, is events.Expectation) string {
	if is.Content == "" {
		return fmt.Sprintf("%s was removed; its text was:\n%s", was.Bullet, Marked("- ", was.Content))
	}
	text := fmt.Sprintf("%s has changed since it was read:\n", was.Bullet)
	if was.Section != is.Section {
		text += fmt.Sprintf("- section %s\n+ section %s\n", was.Section, is.Section)
	}
	if was.Content != is.Content {
		text += Marked("- ", was.Content) + Marked("+ ", is.Content)
	}
	return text
}

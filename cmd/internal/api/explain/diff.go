package explain

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
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

// FieldChanges lists the fields of a bullet that changed, besides its content, such as "helpful: 1 → 2".
func FieldChanges(before, after *playbook.Bullet) (changes []string) {
	add := func(field string, a, b any) {
		if a != b {
			changes = append(changes, fmt.Sprintf("%s: %v → %v", field, a, b))
		}
	}
	add("section", before.Section, after.Section)
	add("helpful", before.Helpful, after.Helpful)
	add("harmful", before.Harmful, after.Harmful)
	add("neutral", before.Neutral, after.Neutral)
	add("status", Status(before), Status(after))
	add("pinned", before.Pinned, after.Pinned)
	return changes
}

// difference formats the changes of one bullet.
func difference(before, after *playbook.Bullet) string {
	var out strings.Builder
	term.Fprintf(&out, "%s\n", strings.Join(append([]string{"~ " + string(after.ID)}, FieldChanges(before, after)...), "  "))
	if before.Content != after.Content {
		out.WriteString(Marked("  - ", before.Content) + Marked("  + ", after.Content))
	}
	return out.String()
}

// Conflict describes how a bullet changed since the author of an edit read it. A bullet without content was removed.
func Conflict(read, now events.Expectation) string {
	if now.Content == "" {
		return fmt.Sprintf("%s was removed; its text was:\n%s", read.Bullet, Marked("- ", read.Content))
	}
	text := fmt.Sprintf("%s has changed since it was read:\n", read.Bullet)
	if read.Section != now.Section {
		text += fmt.Sprintf("- section %s\n+ section %s\n", read.Section, now.Section)
	}
	if read.Content != now.Content {
		text += Marked("- ", read.Content) + Marked("+ ", now.Content)
	}
	return text
}

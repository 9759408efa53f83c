// Package explain computes and formats the views that people read: the difference of two versions, the lineage of a bullet,
// the effects of an execution, the list of changes, the events of a stream and the losses of an
// export. Commands print its results.
//
// It also finds the versions of playbooks as people name them: by number, label, time or name. The errors about a version have the exit
// codes of commands: program.ExitUsage for an invalid version, program.ExitRefused for an unknown one and for a broken log.
package explain

import (
	"fmt"
	"strings"

	"debrief/playbook"
)

// FullText formats all parts of a bullet that a person compares.
func FullText(b *playbook.Bullet) string {
	return fmt.Sprintf("%s [%s]%s %s\n%s", b.ID, b.Section, Traits(b), votes(b), b.Content)
}

// Traits returns the status and the pin of a bullet, each after a space. It returns "" for an active one without a pin.
func Traits(b *playbook.Bullet) string {
	text := ""
	if !b.Shown() {
		text += " " + string(b.Status)
	}
	if b.Pinned {
		text += " pinned"
	}
	return text
}

// votes formats the votes of a bullet.
func votes(b *playbook.Bullet) string {
	return fmt.Sprintf("helpful %d, harmful %d, neutral %d", b.Helpful, b.Harmful, b.Neutral)
}

// Status returns the status of a bullet; shown ones are active.
func Status(b *playbook.Bullet) playbook.Status {
	if b.Shown() {
		return playbook.Active
	}
	return b.Status
}

// Marked returns text with mark before every line, and a line break at the end.
func Marked(mark, text string) string {
	return mark + strings.ReplaceAll(text, "\n", "\n"+mark) + "\n"
}

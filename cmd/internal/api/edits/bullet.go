package edits

import (
	"debrief/events/redact"

	book "debrief/playbook"
)

// StoredSection returns the stored form of a section. It replaces secrets first, because Section changes the characters
// that identify them.
func StoredSection(text string) string { return book.Section(redact.ID(text)) }

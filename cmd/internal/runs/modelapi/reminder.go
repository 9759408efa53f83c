package modelapi

import (
	"bytes"
	"strings"
)

// Tags around reminders: texts that a coding agent adds to a message of the user. In later requests it moves them or leaves them out.
const (
	reminderStart = "<system-reminder>"
	reminderEnd   = "</system-reminder>"
)

// WithoutReminders returns the text of a message without the reminders of a coding agent, and without white space around the rest.
func WithoutReminders(text string) string {
	for {
		before, rest, ok := strings.Cut(text, reminderStart)
		if !ok {
			return strings.TrimSpace(text)
		}
		_, after, _ := strings.Cut(rest, reminderEnd)
		text = before + after
	}
}

// isReminder reports whether a string has nothing but reminders.
func isReminder(v Value) bool {
	return bytes.Contains(v.Raw(), []byte(reminderStart)) && WithoutReminders(v.Text()) == ""
}

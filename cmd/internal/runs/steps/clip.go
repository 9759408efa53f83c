package steps

import (
	"fmt"
	"unicode/utf8"

	"debrief/playbook/text"
)

// MaxOutput is the maximum size of a tool's output in bytes. From a longer one, the beginning and the end are kept.
const MaxOutput = 16 << 10

// Clip shortens a tool's output to about MaxOutput bytes with ClipTo.
func Clip(s string) string { return ClipTo(s, MaxOutput) }

// ClipTo shortens a text to about limit bytes, and marks the place of the cut. It keeps three quarters from the beginning and one from the
// end, because errors can be at either end.
func ClipTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	lastSize := limit / 4
	first := text.Prefix(s, limit-lastSize)
	rest := s[len(first):]
	last := rest[len(rest)-lastSize:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) { // the cut is within a character
		last = last[1:]
	}
	return fmt.Sprintf("%s… [cut %d bytes] …%s", first, len(rest)-len(last), last)
}

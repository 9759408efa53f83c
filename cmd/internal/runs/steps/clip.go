package steps

import (
	"fmt"
	"unicode/utf8"

	"debrief/playbook/text"
)

// MaxOutput is the maximum size of a tool's output in bytes. From a longer one, the beginning and the end are kept.
const MaxOutput = 16 << 10

// Clip shortens a tool's output to about MaxOutput bytes, as ClipTo does.
func Clip(s string) string { return ClipTo(s, MaxOutput) }

// ClipTo shortens a text to about limit bytes, and says so in it. It keeps both ends, because errors can be at either end.
func ClipTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit / 4
	first := text.Prefix(s, limit-end)
	rest := s[len(first):]
	last := rest[len(rest)-end:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	return fmt.Sprintf("%s… [cut %d bytes] …%s", first, len(rest)-len(last), last)
}

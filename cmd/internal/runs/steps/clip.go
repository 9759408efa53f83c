package steps

import (
	"fmt"

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
	first, last := text.Cut(s, limit-limit/4, limit/4)
	return fmt.Sprintf("%s… [cut %d bytes] …%s", first, len(s)-len(first)-len(last), last)
}

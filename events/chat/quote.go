package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Quotation is text of somebody else's in a prompt.
type Quotation struct{ Name, Text string }

// Quote is the quotations between marks made from a hash of all of them, so that no text can close its own quotation:
//
//	[[begin trace 5f1c…]]
//	…
//	[[end trace 5f1c…]]
func Quote(parts []Quotation) string {
	var out strings.Builder
	mark := markFor(parts)
	for _, p := range parts {
		fmt.Fprintf(&out, "\n[[begin %s %s]]\n%s\n[[end %s %s]]\n", p.Name, mark, p.Text, p.Name, mark)
	}
	return out.String()
}

// markFor is the mark of the lines around the parts: from their hash, and found in none of them.
func markFor(parts []Quotation) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s %d %s", len(p.Name), p.Name, len(p.Text), p.Text)
	}
	for {
		sum := h.Sum(nil)
		mark := hex.EncodeToString(sum[:8])
		if !slices.ContainsFunc(parts, func(p Quotation) bool { return strings.Contains(p.Text, mark) }) {
			return mark
		}
		h.Write(sum)
	}
}

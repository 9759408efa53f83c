package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Quotation is untrusted text in a prompt.
type Quotation struct{ Name, Text string }

// Quote returns the quotations between delimiters. The delimiters contain a hash of all quotations, so no text can
// close its quotation:
//
//	[[begin trace 5f1c…]]
//	…
//	[[end trace 5f1c…]]
func Quote(parts []Quotation) string {
	var out strings.Builder
	mark := delimiterFor(parts)
	for _, p := range parts {
		fmt.Fprintf(&out, "\n[[begin %s %s]]\n%s\n[[end %s %s]]\n", p.Name, mark, p.Text, p.Name, mark)
	}
	return out.String()
}

// delimiterFor returns the hash for the delimiters. It does not occur in any part.
func delimiterFor(parts []Quotation) string {
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

package redact

import "strings"

// Address returns a server address, or several with commas, without credentials. It removes user names too, because
// a token has the same position.
//
// After each scheme it removes all up to the last @. That also removes an address before one without a scheme, because a password may
// have a comma.
func Address(s string) string {
	parts := strings.SplitAfter(s, "://")
	for i, part := range parts {
		if at := strings.LastIndexByte(part, '@'); at >= 0 {
			parts[i] = "…" + part[at:]
		}
	}
	return strings.Join(parts, "")
}

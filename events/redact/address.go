package redact

import "strings"

// Address is an address, or several with commas, without who logs in there: a token stands where others have a user's
// name, and nothing tells the two apart.
func Address(s string) string {
	parts := strings.SplitAfter(s, "://")
	for i, part := range parts {
		if at := strings.LastIndexByte(part, '@'); at >= 0 {
			parts[i] = "…" + part[at:]
		}
	}
	return strings.Join(parts, "")
}

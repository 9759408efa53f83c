package redact

import "strings"

// Address returns a server address, or several with commas, without credentials. It removes user names too, because
// a token has the same position.
//
// After each scheme it removes all up to the last @ before the next scheme. In "nats://a,u:p@b" this removes the address a too, because
// the comma may be part of a password.
func Address(s string) string {
	parts := strings.SplitAfter(s, "://")
	for i, part := range parts {
		if at := strings.LastIndexByte(part, '@'); at >= 0 {
			parts[i] = "…" + part[at:]
		}
	}
	return strings.Join(parts, "")
}

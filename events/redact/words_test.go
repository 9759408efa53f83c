package redact

import (
	"testing"

	"pgregory.net/rapid"
)

// TestShortWordsHaveNoSecret compares isShortWord, which skips the scan, with the scan.
func TestShortWordsHaveNoSecret(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		if n := len(sh.prefix) + sh.min; n < minKey {
			t.Errorf("%s: the shortest key has %d bytes, so it can pass as a short word", sh.kind, n)
		}
	}
	beginnings := []string{"", "eyJ", "SG.", "SU", "12345678", "key", "password", "-----BEGIN", "%3D"}
	for _, sh := range shapes {
		beginnings = append(beginnings, sh.prefix)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(beginnings).Draw(t, "beginning") + rapid.StringMatching(`[a-zA-Z0-9_.:=-]{0,16}`).Draw(t, "rest")
		if isShortWord(s) && len(find(scanner{s: s})) > 0 {
			t.Errorf("%q is a short word, and a %s", s, Kind(s))
		}
	})
}

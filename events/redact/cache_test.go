package redact

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRememberedTexts checks that a text with a secret is redacted each time, also right after an almost equal text without
// a secret was remembered in the same slot.
func TestRememberedTexts(t *testing.T) {
	t.Parallel()
	cache := new(textCache)
	clean := "check the totals of the order before its lines, and write down both"
	secret := clean + " password=hunter2hunter2"
	want := textWith(cache, secret)
	if want == secret {
		t.Fatalf("got %q, want a mark", want)
	}
	for range 4 {
		if got := textWith(cache, clean); got != clean {
			t.Fatalf("got %q, want %q", got, clean)
		}
		if got := textWith(cache, secret); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if found, _ := cache.has(clean); !found {
		t.Error("a text that occurs again is not remembered")
	}
	if found, _ := cache.has(secret); found {
		t.Error("a text with a secret is remembered")
	}
}

// TestRememberedTextLimits checks that short and long texts are not remembered.
func TestRememberedTextLimits(t *testing.T) {
	t.Parallel()
	cache := new(textCache)
	for _, s := range []string{strings.Repeat("a ", minCached/2-1), strings.Repeat("a ", maxCached/2+1)} {
		for range 3 {
			textWith(cache, s)
		}
		if found, _ := cache.has(s); found {
			t.Errorf("a text of %d bytes is remembered", len(s))
		}
	}
}

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

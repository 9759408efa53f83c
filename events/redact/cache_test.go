package redact

import (
	"strings"
	"testing"
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

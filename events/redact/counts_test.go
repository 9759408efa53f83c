package redact

import (
	"strings"
	"testing"
)

// TestCounts checks that each secret is counted once, with a known class. It is not parallel, because the counts
// are global.
func TestCounts(t *testing.T) {
	counts := func() map[string]uint64 {
		all := map[string]uint64{}
		for class, n := range Counts {
			all[class] = n
		}
		return all
	}
	before, marks := counts(), 0
	for _, e := range examples(t, 1) {
		once := Text(e.text)
		marks += strings.Count(once, markBegin) - strings.Count(e.text, markBegin)
		Text(once) // finds nothing more
	}
	after, counted := counts(), 0
	for class, n := range after {
		n -= before[class]
		counted += int(n)
		if (n == 0) != (class == other) {
			t.Errorf("class %s: got %d in the corpus", class, n)
		}
	}
	if counted != marks || marks == 0 {
		t.Errorf("got %d counted, want the %d marks", counted, marks)
	}
}

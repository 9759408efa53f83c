package explain

import (
	"testing"
	"time"
)

// TestAges: an age has the units of the retention, in which people think.
func TestAges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"90m": 90 * time.Minute, "36h": 36 * time.Hour, "7d": 7 * 24 * time.Hour, "0h": 0} {
		p, err := parsePoint(text, now)
		if err != nil || p.by != byTime || now.Sub(p.time) != want {
			t.Errorf("%s: got %+v, %v", text, p, err)
		}
		if since, err := ParseSince(text); err != nil || time.Since(since).Round(time.Minute) != want {
			t.Errorf("--since %s: got %s, %v", text, since, err)
		}
	}
	for _, text := range []string{"-1h", "-7d", "1.5d"} {
		if p, err := parsePoint(text, now); err == nil && p.by == byTime {
			t.Errorf("%s: got %+v", text, p)
		}
	}
}

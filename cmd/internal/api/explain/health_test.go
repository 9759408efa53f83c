package explain

import (
	"testing"

	"debrief/playbook/history"
)

// TestHealthWithoutBullets checks that no number is shown for a playbook without an active bullet, except counts.
func TestHealthWithoutBullets(t *testing.T) {
	t.Parallel()
	for _, f := range HealthFigures(&history.Health{}) {
		want := "-"
		if f.Name == "contradictions" {
			want = "0"
		}
		if f.Value != want {
			t.Errorf("%s: got %q (%s), want %q", f.Name, f.Value, f.Note, want)
		}
	}
	figures := HealthFigures(&history.Health{Active: 1, MedianDays: 2, OldestDays: 3})
	if last := figures[len(figures)-1]; last.Value != "2 days ago" || last.Note != "the median; the oldest 3 days ago, 0 more than 30" {
		t.Errorf("got %+v", last)
	}
}

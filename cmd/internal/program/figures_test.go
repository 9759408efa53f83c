package program

import (
	"slices"
	"testing"

	"debrief/playbook"
)

// TestPlaybooksOfMetricsAreUnique names a playbook twice: two values with the same labels would be an error of each scrape.
func TestPlaybooksOfMetricsAreUnique(t *testing.T) {
	t.Parallel()
	cfg, err := Figures{Playbooks: []string{"a", "b", "a"}}.settings()
	if want := []playbook.Book{"a", "b"}; err != nil || !slices.Equal(cfg.Playbooks, want) {
		t.Errorf("got %q, %v, want %q", cfg.Playbooks, err, want)
	}
}

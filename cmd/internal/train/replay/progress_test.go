package replay

import (
	"regexp"
	"sync"
	"testing"

	"debrief/events/chat"
)

// TestCuratorSeesProgress checks the progress of the run in the prompts of the Curator, also with shuffled samples.
func TestCuratorSeesProgress(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	line := regexp.MustCompile(`(?m)^Progress of the run: (.*)\.$`)
	h := open(t, 4, func(p chat.Prompt) error {
		if p.Name == "curator" {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, line.FindStringSubmatch(p.Messages[1].Text)[1])
		}
		return nil
	})
	h.run(Config{Epochs: 2, Batch: 6, Shuffle: true, Seed: 7}, Sets{Train: sets(12, 0).Train}, Options{Name: "r"})
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 {
		t.Fatal("the Curator's model was not asked")
	}
	for _, text := range seen {
		if m := regexp.MustCompile(`^it learns from samples up to number (\d+) of 24, epoch (\d)$`).FindStringSubmatch(text); m == nil || (len(m[1]) == 2 && m[1] > "12") != (m[2] == "2") {
			t.Errorf("got %q, want samples 1 to 12 in epoch 1 and 13 to 24 in epoch 2", text)
		}
	}
}

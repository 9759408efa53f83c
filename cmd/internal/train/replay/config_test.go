package replay

import (
	"strings"
	"testing"

	"debrief/events"
)

// TestExpectedValidations checks that Expected counts the validations of a run: at the end of a window, by the samples of all epochs.
func TestExpectedValidations(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		config  Config
		samples int
		want    int // before the run, after each epoch, and inside the epochs
	}{
		{Config{}, 10, 1 + 1},
		{Config{ValidateEvery: 4}, 10, 1 + 1 + 2},                     // at 4 and 8
		{Config{ValidateEvery: 5}, 10, 1 + 1 + 1},                     // at 5; 10 is the end
		{Config{ValidateEvery: 8, Epochs: 3}, 10, 1 + 3 + 3},          // at 8, 16 and 24
		{Config{ValidateEvery: 15, Epochs: 3}, 10, 1 + 3 + 1},         // at 15; 30 is the end
		{Config{ValidateEvery: 1, Batch: 4}, 10, 1 + 1 + 2},           // at 4 and 8
		{Config{ValidateEvery: 1, Batch: 100}, 10, 1 + 1},             // one window
		{Config{ValidateEvery: 2, Mode: Online}, 40, 1 + 1 + 2},       // at 15 and 30
		{Config{ValidateEvery: 1, Batch: 4, Epochs: 2}, 0, 1 + 2 + 0}, // no samples
	} {
		tasks := make([]events.Task, tc.samples)
		_, got := tc.config.Expected(Sets{Train: &Set{Tasks: tasks}, Validation: &Set{Tasks: make([]events.Task, 1)}})
		if got != tc.want {
			t.Errorf("%+v: got %d validations, want %d", tc.config, got, tc.want)
		}
	}
}

func TestInvalidTriesNameTheRange(t *testing.T) {
	t.Parallel()
	if err := (Config{Tries: 0}).Validate(); err != nil {
		t.Errorf("0: got %v", err)
	}
	if err := (Config{Tries: -1}).Validate(); err == nil || !strings.Contains(err.Error(), "--tries: must be 0 to") {
		t.Errorf("-1: got %v, want the range from 0", err)
	}
}

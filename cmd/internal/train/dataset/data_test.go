package dataset_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"debrief/cmd/internal/train/dataset"
)

// TestSamplesOfACE reads the data of the ACE authors, which is stored outside the repository, and compares it with an independent
// reading of the JSON.
func TestSamplesOfACE(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../../shared/data")
	for name, samples := range map[string]int{"formula_train_subset_500.jsonl": 500, "formula_val_subset_300.jsonl": 300, "finer_val_first_100.jsonl": 100} {
		data, err := os.ReadFile(filepath.Join(dir, "ace", name))
		if err != nil {
			t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
		}
		set, err := dataset.Read(t.Context(), name, bytes.NewReader(data), dataset.Options{Evaluator: "formula"})
		if err != nil || set.Invalid != 0 || len(set.Tasks) != samples {
			t.Fatalf("%s: got %+v, %v, want %d samples", name, set, err, samples)
		}
		i := 0
		for line := range bytes.Lines(data) {
			var raw struct{ Context, Target string }
			if err := json.Unmarshal(line, &raw); err != nil {
				t.Fatal(err)
			}
			if task := &set.Tasks[i]; task.Question != raw.Context || task.Context != "" || task.Target != raw.Target || task.Evaluator != "formula" {
				t.Errorf("%s: line %d became %+v", name, i+1, task)
			}
			i++
		}
	}
}

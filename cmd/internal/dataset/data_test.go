package dataset_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"debrief/cmd/internal/dataset"
)

// The tests here read data sets of other projects, which are stored outside the repository. They compare the result
// with an independent reading of the JSON.

type raw struct{ Context, Target string }

func dataFile(t *testing.T, name string, o dataset.Options) (*dataset.Set, []raw) {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../shared/data")
	data, err := os.ReadFile(filepath.Join(dir, "ace", name))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	set, err := dataset.Read(t.Context(), name, bytes.NewReader(data), o)
	if err != nil || set.Invalid != 0 || set.SHA256 != fmt.Sprintf("%x", sha256.Sum256(data)) {
		t.Fatalf("got %+v, error %v", set, err)
	}
	var lines []raw
	for line := range bytes.Lines(data) {
		var r raw
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, r)
	}
	return set, lines
}

// inQuotes is a stricter pattern for questions, and loose is the end of all these contexts.
var (
	inQuotes = regexp.MustCompile(`Question:\s*"([^"“”]*\?)"\.\s*Answer:$`)
	loose    = regexp.MustCompile(`(?s)Question:\s*(\S.*\S)\s*\.\s*Answer:$`)
)

func TestFormula(t *testing.T) {
	t.Parallel()
	for name, samples := range map[string]int{"formula_train_subset_500.jsonl": 500, "formula_val_subset_300.jsonl": 300} {
		set, lines := dataFile(t, name, dataset.Options{})
		if len(set.Tasks) != samples || len(lines) != samples {
			t.Fatalf("%s: got %d tasks of %d lines, want %d", name, len(set.Tasks), len(lines), samples)
		}
		strict := 0
		for i, task := range set.Tasks {
			if task.Context != lines[i].Context || task.Target != lines[i].Target || task.Evaluator != "formula" {
				t.Errorf("%s: line %d became %+v", name, i+1, task)
			}
			if m := inQuotes.FindStringSubmatch(task.Context); m != nil {
				if strict++; task.Question != m[1] {
					t.Errorf("%s: line %d: got %q, want %q", name, i+1, task.Question, m[1])
				}
			}
			m := loose.FindStringSubmatch(task.Context)
			if m == nil || task.Question != strings.TrimSpace(strings.Trim(m[1], `"“”`)) || strings.Contains(task.Question, "Answer") {
				t.Errorf("%s: line %d: got %q out of %q", name, i+1, task.Question, m)
			}
		}
		t.Logf("%s: %d of %d questions found; a strict pattern finds %d", name, samples, samples, strict)
		if strict == 0 || strict > samples/2 {
			t.Errorf("%s: the strict pattern finds %d, the test says nothing", name, strict)
		}
		asked, _ := dataFile(t, name, dataset.Options{Form: dataset.Form("formula")})
		for i := range asked.Tasks {
			if asked.Tasks[i].ID != set.Tasks[i].ID || asked.Tasks[i].Question != set.Tasks[i].Question {
				t.Errorf("%s: line %d is another one when the form is given", name, i+1)
			}
		}
	}
}

func TestFiNER(t *testing.T) {
	t.Parallel()
	set, lines := dataFile(t, "finer_val_first_100.jsonl", dataset.Options{})
	if len(set.Tasks) != 100 || len(lines) != 100 {
		t.Fatalf("got %d tasks of %d lines, want 100", len(set.Tasks), len(lines))
	}
	ids := map[string]bool{}
	for i, task := range set.Tasks {
		if task.Question != lines[i].Context || task.Context != "" || task.Target != lines[i].Target || task.Evaluator != "list:ignore-extra" {
			t.Errorf("line %d became %+v", i+1, task)
		}
		if n := strings.Count(task.Target, ","); n != 3 {
			t.Errorf("line %d has %d tags, want 4", i+1, n+1)
		}
		ids[task.ID] = true
	}
	if len(ids) != 100 { // two of the lines are equal
		t.Errorf("got %d ids, want 100", len(ids))
	}
}

package report

import (
	"strings"
	"testing"

	"debrief/cmd/internal/explain"
	"debrief/playbook"
)

func TestLegendExplainsEveryOperation(t *testing.T) {
	t.Parallel()
	applied := map[string]int{"NEW": 1} // of a newer program
	for _, kind := range playbook.OpKinds() {
		applied[string(kind)]++
		if explain.OperationMeaning(kind) == "" {
			t.Errorf("%s: no meaning: add it to operations in cmd/internal/explain/operation.go", kind)
		}
	}
	terms := operationTerms(applied)
	if len(terms) != len(playbook.OpKinds()) {
		t.Errorf("explains %d of %d operations", len(terms), len(playbook.OpKinds()))
	}
	for _, x := range terms {
		if !strings.HasSuffix(x.Meaning, ".") {
			t.Errorf("%s: got %q", x.Word, x.Meaning)
		}
	}
}

// TestBestPlaybookIsMarkedOnlyIfLearned: without a learned bullet, the page and the summary mark no playbook as the best.
func TestBestPlaybookIsMarkedOnlyIfLearned(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Report){
		"no bullets":           func(r *Report) { r.Best.Bullets = 0 },
		"the first playbook":   func(r *Report) { r.Best.Step = 0 },
		"no operation applied": func(r *Report) { r.Operations = nil },
	} {
		r := example()
		r.Best = r.Epochs[2].Book
		marked := `<span class="tag best">best</span>`
		if page := render(t, r); strings.Count(page, marked) != 1 || !strings.Contains(page, `<text class="best"`) {
			t.Fatalf("a learned playbook is not marked")
		}
		change(r)
		page := render(t, r)
		if strings.Contains(page, marked) || strings.Contains(page, `class="best"`) || !strings.Contains(page, "nothing learned") || strings.Contains(page, `<th scope="col">Best</th>`) {
			t.Errorf("%s: the page marks the best playbook", name)
		}
		var out strings.Builder
		if err := r.Text(&out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "Best playbook: ") || !strings.Contains(out.String(), "Nothing was learned") {
			t.Errorf("%s: the summary has %s", name, out.String())
		}
	}
}

// TestMarksOfAccuraciesHaveIntervals uses Newcombe's example of the score method: 81 of 263 is 30.8 %, 25.5 to 36.6.
func TestMarksOfAccuraciesHaveIntervals(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"train", "validation", "test"} {
		r := &Report{Points: []Point{{Set: set, Step: 10, Score: Score{N: 263, Right: 81, Accuracy: 81. / 263}}}}
		if page := render(t, r); !strings.Contains(page, "81 of 263, 95 % interval 25.5\u00a0% to 36.6\u00a0%, after 10") || strings.Count(page, `class="interval"`) != 3 {
			t.Errorf("%s: got no interval on the chart", set)
		}
	}
}

package report

import (
	"strings"
	"testing"
)

func TestComparisonIsShown(t *testing.T) {
	t.Parallel()
	r := example()
	if text := words(render(t, r)); strings.Contains(text, "Against playbook") {
		t.Error("a run that is compared with nothing has the section")
	}
	r.Against = &Comparison{
		Book: "support", Version: 41, Bullets: 1234, Same: 7, Alike: 5, OnlyHere: 2, OnlyThere: 1222,
		Here: []string{"Ask for <b>the order</b> first.", "Answer in the customer's language."}, There: []string{"Apologise twice."},
	}
	page := render(t, r)
	has(t, words(page), "Comparison with playbook support", "version 41 of this playbook, which has 1 234 bullets: 7 are the same, 5 nearly the same.",
		"Only in the best playbook of this run : 2", "Ask for <b>the order</b> first.", "Only in support : 1 222", "Apologise twice.", "The first 1 of 1 222.", "The other playbook")
	if strings.Contains(page, "<b>the order</b>") {
		t.Error("a text is taken for HTML")
	}
	var out strings.Builder
	if err := r.Text(&out); err != nil {
		t.Fatal(err)
	}
	has(t, strings.Join(strings.Fields(out.String()), " "), "Against playbook support, version 41 with 1 234 bullets: 7 the same, 5 nearly, 2 only here, 1 222 only there.")
	has(t, strings.Join(strings.Fields(out.String()), " "), "with playbook support and with the playbook learned from its executions")
	r.Against.Here, r.Against.There = nil, nil
	data, err := r.json()
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(data), `"texts_only_here": []`, `"texts_only_there": []`, `"same": 7`)
}

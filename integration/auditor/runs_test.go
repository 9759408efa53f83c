package auditor

import (
	"strings"
	"testing"
)

// TestCheckRunsFindsEachDefect: a correct stream is clean, and each damage is found.
func TestCheckRunsFindsEachDefect(t *testing.T) {
	t.Parallel()
	runs := []AgentRun{{"a?", "a.", 1, true}, {"b?", "b.", 0, false}, {"c?", "c.", 0, false}}
	for _, test := range []struct{ name, id, question, answer, want string }{
		{"clean", "", "", "", ""},
		{"copy", "1", "a?", "a.", ""},
		{"twice", "3", "a?", "a.", "twice"},
		{"twice, not required", "3", "b?", "b.", "doubled"},
		{"unknown", "3", "d?", "d.", "wrong"},
		{"other answer", "1", "a?", "", "wrong"},
		{"lost", "1", "c?", "c.", "lost"},
	} {
		w := &world{T: t}
		store := func(id, question, answer string, steps int) {
			add(&w.Executions, "debrief.execution.b", w.encode(map[string]any{"id": id, "question": question, "answer": answer, "steps": make([]struct{}, steps)}))
		}
		if test.want == "lost" || test.name == "other answer" {
			store(test.id, test.question, test.answer, 1)
		} else {
			store("1", "a?", "a.", 1)
			if test.id != "" {
				store(test.id, test.question, test.answer, 1)
			}
		}
		store("2", "b?", "another answer", 0)
		add(&w.Executions, "debrief.feedback.b", w.encode(map[string]any{"id": "4"}))
		r := CheckRuns(&w.Streams, runs)
		var got []string
		for kind, list := range map[string][]string{"lost": r.Lost, "twice": r.Twice, "wrong": r.Wrong, "doubled": r.Doubled} {
			if len(list) > 0 {
				got = append(got, kind)
			}
		}
		if strings.Join(got, ",") != test.want {
			t.Errorf("%s: got %v, want %q: %s", test.name, got, test.want, r)
		}
	}
}

package explain_test

import (
	"errors"
	"strings"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/events/inspect"
	"debrief/playbook"
)

func TestEntry(t *testing.T) {
	t.Parallel()
	scored := events.Outcome{Label: events.Failure, Score: 0.25, Feedback: "too long"}
	for _, test := range []struct {
		name    string
		entry   inspect.Entry
		id      string // exact, or the sequence before the hash of a handle
		problem bool
		line    []string // in the line
	}{
		{"task", inspect.Entry{Seq: 3, Event: &events.Task{ID: "t", Question: "a\nb"}}, "3-", false, []string{"a b"}},
		{"execution", inspect.Entry{Seq: 4, Event: &events.Execution{ID: "e", Question: "why", Outcome: scored}}, "4-", false, []string{"failure 0.25", "why"}},
		{"feedback", inspect.Entry{Seq: 5, Event: &events.Feedback{Execution: "4-ab12cd34", Outcome: scored}}, "5-", false, []string{"on 4-ab12cd34 too long"}},
		{"reflection without insight", inspect.Entry{Seq: 6, Event: &events.Reflection{Handle: "4-ab12cd34"}}, "6-", false, []string{"on 4-ab12cd34"}},
		{"edit, perhaps a copy", inspect.Entry{Seq: 7, Repeat: true, Event: &events.Edit{Author: "ann"}}, "7-", false, []string{"(may be a copy) by ann"}},
		{"dead letter", inspect.Entry{Seq: 8, Event: &events.DeadLetter{Role: "curator", Reason: "odd"}}, "8-", false, []string{"curator", "odd"}},
		{"delta", inspect.Entry{Seq: 9, Chain: []byte{0xab, 0x12, 0xcd}, Delta: &playbook.Delta{Version: 2, Gate: playbook.GateOff}}, "2@ab12cd", false, []string{"the gate is off"}},
		{"unreadable", inspect.Entry{Seq: 10, Err: errors.New("odd")}, "10", true, []string{"unreadable: odd"}},
	} {
		got := explain.NewEntry(&test.entry)
		if !strings.HasPrefix(got.ID, test.id) || !strings.HasSuffix(test.id, "-") && got.ID != test.id || (got.Problem != "") != test.problem {
			t.Errorf("%s: got %+v", test.name, got)
		}
		line := explain.EntryLine(&test.entry)
		for _, want := range append(test.line, got.ID) {
			if !strings.Contains(line, want) {
				t.Errorf("%s: got %q, want %q in it", test.name, line, want)
			}
		}
	}
}

package explain_test

import (
	"strings"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	a := &playbook.Bullet{ID: "a", Section: "misc", Content: "one\ntwo"}
	changed := &playbook.Bullet{ID: "a", Section: "misc", Content: "one", Helpful: 2, Pinned: true, Status: playbook.Retired}
	active := &playbook.Bullet{ID: "a", Section: "misc", Content: "one\ntwo", Status: playbook.Active}
	for _, test := range []struct {
		name  string
		diff  []history.Difference
		lines []string // the beginnings of the lines
	}{
		{"none", nil, []string{"No bullet differs. END"}},
		{"added", []history.Difference{{After: a}}, []string{"+ a [misc]", "+ one", "+ two", "1 added, 0 removed, 0 changed. END"}},
		{"removed", []history.Difference{{Before: changed}}, []string{"- a [misc] retired pinned helpful 2", "- one", "0 added, 1 removed"}},
		{
			"changed",
			[]history.Difference{{Before: a, After: changed}},
			[]string{"~ a  helpful: 0 → 2  status: active → retired  pinned: false → true", "  - one", "  - two", "  + one", "0 added, 0 removed, 1 changed"},
		},
		{"same status", []history.Difference{{Before: a, After: active}}, []string{"~ a", "0 added"}},
	} {
		lines := strings.Split(explain.Differences(test.diff, "END"), "\n")
		if len(lines) != len(test.lines) {
			t.Errorf("%s: got %q", test.name, lines)
			continue
		}
		for i, want := range test.lines {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: got line %q, want %q", test.name, lines[i], want)
			}
		}
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	was := events.Expectation{Bullet: "a", Section: "misc", Content: "old"}
	for _, test := range []struct {
		name string
		is   events.Expectation
		want []string // the lines after the first
	}{
		{"removed", events.Expectation{Bullet: "a"}, []string{"- old"}},
		{"text", events.Expectation{Bullet: "a", Section: "misc", Content: "new"}, []string{"- old", "+ new"}},
		{"section", events.Expectation{Bullet: "a", Section: "other", Content: "old"}, []string{"- section misc", "+ section other"}},
	} {
		lines := strings.Split(strings.TrimSuffix(explain.Conflict(was, test.is), "\n"), "\n")
		if got := strings.Join(lines[1:], "|"); got != strings.Join(test.want, "|") {
			t.Errorf("%s: got %q", test.name, lines)
		}
	}
}

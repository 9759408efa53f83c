package events_test

import (
	"strings"
	"testing"

	"debrief/events"
)

func TestKeepAdvice(t *testing.T) {
	t.Parallel()
	const text = "<playbook>\n- [a-1] One.\n- [a-2] Two,\n  in two lines.\nNote:\n  Insight: x\n  Error: y\n</playbook>"
	at := func(line string) (start, end int) { i := strings.Index(text, line); return i, i + len(line) }
	var lines []events.AdviceLine
	for _, l := range []struct {
		line string
		events.AdviceLine
	}{
		{"- [a-1] One.\n", events.AdviceLine{Bullet: "a-1"}},
		{"- [a-2] Two,\n  in two lines.\n", events.AdviceLine{Bullet: "a-2"}},
		{"Note:\n", events.AdviceLine{Reflection: "7-ab"}},
		{"  Insight: x\n", events.AdviceLine{Reflection: "7-ab", Field: events.FieldInsight}},
		{"  Error: y\n", events.AdviceLine{Reflection: "7-ab", Field: events.FieldError}},
	} {
		l.Start, l.End = at(l.line)
		lines = append(lines, l.AdviceLine)
	}
	for want, keep := range map[string]func(*events.AdviceLine) bool{
		text: func(*events.AdviceLine) bool { return true },
		"":   func(*events.AdviceLine) bool { return false },
		"<playbook>\n- [a-2] Two,\n  in two lines.\n</playbook>": func(l *events.AdviceLine) bool { return l.Bullet == "a-2" },
		"<playbook>\nNote:\n  Error: y\n</playbook>":             func(l *events.AdviceLine) bool { return l.Field == events.FieldError },
	} {
		got, kept := events.KeepAdvice(text, lines, func(l *events.AdviceLine, text string) bool {
			if text == "" {
				t.Errorf("%+v: no text", l)
			}
			return keep(l)
		})
		if got != want || (len(kept) == 0) != (want == "") {
			t.Errorf("got %q with %d lines, want %q", got, len(kept), want)
		}
		for _, l := range kept {
			if line := got[l.Start:l.End]; !strings.HasSuffix(line, "\n") || !strings.Contains(text, line) || strings.HasPrefix(line, "<") {
				t.Errorf("in %q: %+v is %q", got, l, line)
			}
		}
	}
}

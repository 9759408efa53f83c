package ops

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/direct"
	"debrief/playbook"
)

func TestEntryLine(t *testing.T) {
	t.Parallel()
	scored := events.Outcome{Label: events.Failure, Score: 0.25, Feedback: "too long"}
	for name, test := range map[string]struct {
		entry tailEntry
		line  []string // in the line
	}{
		"task":                       {tailEntry{Event: &events.Task{ID: "t", Question: "a\nb"}}, []string{"a b"}},
		"execution":                  {tailEntry{Event: &events.Execution{ID: "e", Question: "why", Outcome: scored}}, []string{"failure 0.25", "why"}},
		"feedback":                   {tailEntry{Event: &events.Feedback{Execution: "4-ab12cd34", Outcome: scored}}, []string{"on 4-ab12cd34 too long"}},
		"reflection without insight": {tailEntry{Event: &events.Reflection{Handle: "4-ab12cd34"}}, []string{"on 4-ab12cd34"}},
		"edit, perhaps a copy":       {tailEntry{Repeat: true, Event: &events.Edit{Author: "ann"}}, []string{"(may be a copy) by ann"}},
		"dead letter":                {tailEntry{Event: &events.DeadLetter{Role: "curator", Reason: "odd"}}, []string{"curator", "odd"}},
		"delta":                      {tailEntry{Delta: &playbook.Delta{Version: 2, Gate: playbook.GateOff}}, []string{"the gate is off"}},
		"unreadable":                 {tailEntry{Problem: "odd"}, []string{"unreadable: odd"}},
	} {
		test.entry.ID = "4-ab12cd34"
		line := test.entry.line()
		for _, want := range append(test.line, test.entry.ID) {
			if !strings.Contains(line, want) {
				t.Errorf("%s: got %q, want %q in it", name, line, want)
			}
		}
	}
}

func TestEntryOfMessage(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	task := &events.Task{Book: "b", ID: "t", Question: "q"}
	subject, header, data, err := events.Encode(task)
	if err != nil {
		t.Fatal(err)
	}
	delta, err := events.EncodeDelta(&playbook.Delta{Version: 1, ChangeID: "c", Gate: playbook.GateOff})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		message    direct.Message
		id         string // exact, or the sequence before the hash of a handle or of a delta
		hasProblem bool
	}{
		"task":            {direct.Message{Seq: 3, Subject: subject, Header: header, Data: data}, "3-", false},
		"delta":           {direct.Message{Seq: 9, Subject: events.KindDelta.Subject("b"), Header: events.SchemaHeader(), Data: delta}, "1@", false},
		"damaged":         {direct.Message{Seq: 10, Subject: subject, Header: header, Data: data[1:]}, "10", true},
		"without schema":  {direct.Message{Seq: 11, Subject: events.KindDelta.Subject("b"), Header: nats.Header{}, Data: delta}, "11", true},
		"unknown subject": {direct.Message{Seq: 12, Subject: "other", Header: header, Data: data}, "12", true},
	} {
		e := newTailEntry(t.Context(), conn, "", &test.message)
		isExact := !strings.HasSuffix(test.id, "-") && !strings.HasSuffix(test.id, "@")
		if !strings.HasPrefix(e.ID, test.id) || isExact && e.ID != test.id || (e.Problem != "") != test.hasProblem {
			t.Errorf("%s: got %+v", name, e)
		}
	}
}

package generator

import (
	"strings"
	"testing"

	"debrief/events"
	"debrief/generator/prompt/assembly"
	"debrief/playbook"
)

// A pinned version does not bring back a text that is refused today, and shows the others.
func TestPinnedVersionAsksTodaysAdmission(t *testing.T) {
	t.Parallel()
	const text, other = "Ring the bell at noon, before the ferry.", "The harbour office opens at nine."
	id := playbook.MintID("others", 9)
	covers := []playbook.Cover{{ID: "r", Seq: 5, Evidence: &playbook.Evidence{Execution: "1-00000000", Source: "agent/ann"}}}
	status := func(s playbook.Status, standing playbook.Standing) []playbook.Delta {
		return []playbook.Delta{{Author: "ann", Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: id, Status: s, Standing: standing}}}}
	}
	for _, test := range []struct {
		name   string
		deltas []playbook.Delta
		shown  bool
	}{
		{"active", nil, true},
		{"retired by the gate", status(playbook.Retired, playbook.StandingNew), true},
		{"removed", []playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: id}}}}, true},
		{"rejected", status(playbook.Retired, playbook.StandingKept), false},
		{"quarantined or suspended", status(playbook.Quarantined, ""), false},
		{"forgotten", []playbook.Delta{{
			Author: "ann", Forget: &playbook.Selector{Source: "agent"}, ForgetBefore: 2, Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: id}},
		}}, false},
		{"the same text waits under another id", []playbook.Delta{
			{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: id}}},
			{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", 10), Section: "others", Content: text, Status: playbook.Quarantined}}},
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			pinned := f.commitDelta(playbook.Delta{Covers: covers, Ops: []playbook.Op{
				{Kind: playbook.Add, Bullet: id, Section: "others", Content: text, Standing: playbook.StandingKept, Support: []int{0}},
				{Kind: playbook.Add, Bullet: playbook.MintID("others", 1), Section: "others", Content: other, Standing: playbook.StandingKept},
			}})
			cb := f.newBuilder(nil, Config{}, testTimeouts)
			request := &events.ContextRequest{Query: "When?", Playbook: &pinned, DryRun: true}
			if got := chatText(f.context(cb, request).Messages); !strings.Contains(got, text) || !strings.Contains(got, other) {
				t.Fatalf("before: got %s", got)
			}
			newest := pinned
			for _, d := range test.deltas {
				newest = f.commitDelta(d)
			}
			f.awaitVersion(cb, newest)
			got := chatText(f.context(cb, request).Messages)
			if strings.Contains(got, text) != test.shown || !strings.Contains(got, other) {
				t.Errorf("want the text: %t, and the other text; got %s", test.shown, got)
			}
		})
	}
}

// After a forget, a context has neither the forgotten turn nor an excerpt of it.
func TestExcerptsAfterForget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{Limits: assembly.Limits{Window: 1}}, testTimeouts)
	for i, question := range []string{"one shelf of the hall", "SECRET two", "three", "four"} {
		e, r := f.storeExecution("s", question, "answer", func(e *events.Execution) {
			if e.Turn = i + 1; i == 1 {
				e.User = "zoe"
			}
		})
		f.putWindow(e, r)
	}
	version := f.commitDelta(playbook.Delta{Forget: &playbook.Selector{User: "zoe"}, ForgetBefore: 100})
	f.awaitVersion(cb, version)
	got := chatText(f.context(cb, &events.ContextRequest{Session: "s", Query: "five", MinVersion: version, DryRun: true}).Messages)
	if strings.Contains(got, "SECRET") || !strings.Contains(got, "four") {
		t.Errorf("the context has a forgotten turn, or lacks another one: %s", got)
	}
}

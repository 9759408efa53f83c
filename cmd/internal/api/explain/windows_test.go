package explain

import (
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
)

// TestWindowOutcomes has turns of sessions with all, a part and none of the earlier turns in the prompt, and runs that do not count.
func TestWindowOutcomes(t *testing.T) {
	t.Parallel()
	message := events.Part{Kind: events.PartUser, Tokens: 30}
	s := storedRuns{}
	for i, row := range []struct {
		session string
		turn    int
		label   events.Label
		parts   []events.Part
		omitted int // messages, of 30 tokens each
	}{
		{"a", 1, events.Failure, nil, 0}, // a first turn
		{"a", 2, events.Success, []events.Part{message}, 0},
		{"a", 3, events.Failure, []events.Part{message, message}, 0},
		{"a", 4, events.Success, []events.Part{message}, 3},
		{"a", 5, events.Failure, nil, 4},
		{"b", 2, events.Failure, nil, 0},
		{"b", 3, events.Unknown, []events.Part{message}, 0}, // no outcome
		{"", 2, events.Success, []events.Part{message}, 0},  // no session
	} {
		m := &events.Manifest{Parts: append(row.parts, events.Part{Kind: events.PartQuery, Tokens: 9})}
		if row.omitted > 0 {
			m.Omitted = []events.Omission{{Kind: events.PartUser, Why: "limit", Count: row.omitted, Tokens: 30 * row.omitted}}
		}
		e := &events.Execution{ID: events.Hash("run", string(rune('a'+i))), Session: row.session, Turn: row.turn, Outcome: events.Outcome{Label: row.label}, Manifest: m}
		subject := events.KindExecution.Subject("main")
		s[subject] = append(s[subject], bus.Stored{Seq: uint64(i + 1), Event: e})
	}
	o, err := ReadOutcomes(t.Context(), s, "main")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		turns            string
		runs             int
		success          float64
		messages, tokens float64
		share            float64
	}
	want := []row{{"all", 2, 0.5, 1.5, 45, 1}, {"part", 1, 1, 1, 30, 0.25}, {"none", 2, 0, 0, 0, 0}}
	if len(o.Windows) != len(want) {
		t.Fatalf("got %+v", o.Windows)
	}
	for i, w := range o.Windows {
		if got := (row{w.Earlier, w.Success.N, w.Success.Mean, w.Messages, w.Tokens, w.Share}); got != want[i] {
			t.Errorf("got %+v, want %+v", got, want[i])
		}
	}
	var out strings.Builder
	if err := o.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"of 2     1.5       45      100 %", "part   100 %", "25 %", "none   0 %"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("got %q, want %q in it", out.String(), line)
		}
	}
}

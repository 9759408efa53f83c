package explain_test

import (
	"slices"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	turn := func(h events.Handle) *events.Interaction { return &events.Interaction{Execution: h} }
	mark := func(m events.Mark, h events.Handle) events.MarkedInteraction {
		return events.MarkedInteraction{Mark: m, Interaction: *turn(h)}
	}
	for _, test := range []struct {
		name  string
		list  []*events.Interaction
		marks []events.MarkedInteraction
		turns []events.Mark   // of each turn
		older []events.Handle // marked, not in the window
	}{
		{name: "empty"},
		{"no marks", []*events.Interaction{turn("1"), turn("2")}, nil, []events.Mark{"", ""}, nil},
		{
			"a mark in the window and two before",
			[]*events.Interaction{turn("3"), turn("4")},
			[]events.MarkedInteraction{mark(events.Pin, "1"), mark(events.Star, "4"), mark(events.Star, "2")},
			[]events.Mark{"", events.Star},
			[]events.Handle{"1", "2"},
		},
		{"only older", nil, []events.MarkedInteraction{mark(events.Pin, "1")}, nil, []events.Handle{"1"}},
	} {
		turns, older := explain.Window(test.list, test.marks)
		var marks []events.Mark
		for _, i := range turns {
			marks = append(marks, i.Mark)
		}
		var handles []events.Handle
		for _, m := range older {
			handles = append(handles, m.Interaction.Execution)
		}
		if !slices.Equal(marks, test.turns) || !slices.Equal(handles, test.older) {
			t.Errorf("%s: got marks %v, older %v", test.name, marks, handles)
		}
	}
}

package playbook

import (
	"reflect"
	"slices"
	"testing"
)

func TestStats(t *testing.T) {
	t.Parallel()
	bullets := []*Bullet{
		{ID: "a-1", Section: "api", Helpful: 6, Harmful: 1},                     // high performing
		{ID: "a-2", Section: "api", Helpful: 6, Harmful: 2, Status: Active},     // neither
		{ID: "a-3", Section: "api", Helpful: 5},                                 // neither
		{ID: "a-4", Section: "api", Helpful: 2, Harmful: 2},                     // problematic
		{ID: "b-1", Section: "beta", Harmful: 1},                                // problematic
		{ID: "b-2", Section: "beta"},                                            // unused
		{ID: "b-3", Section: "beta", Neutral: 1},                                // used
		{ID: "b-4", Section: "beta", Helpful: 9, Status: Retired},               // not shown
		{ID: "c-1", Section: "only retired", Harmful: 4, Status: Quarantined},   // not shown
		{ID: "c-2", Section: "only retired", Helpful: 400, Status: Quarantined}, // not shown
	}
	got := Restore(7, 9, slices.Values(bullets)).Stats()
	want := Stats{
		Total: 10, ByStatus: map[Status]int{Active: 7, Retired: 1, Quarantined: 2},
		Sections:       []SectionStats{{"api", 4, 19, 5}, {"beta", 3, 0, 1}},
		HighPerforming: 1, Problematic: 2, Unused: 1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if empty := new(Playbook).Stats(); empty.Total != 0 || empty.Sections == nil {
		t.Errorf("empty playbook: got %+v, want no bullets and an empty list of sections", empty)
	}
}

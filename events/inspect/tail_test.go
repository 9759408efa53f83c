package inspect

import (
	"slices"
	"testing"

	"debrief/events"
	"debrief/events/streams"
)

func TestKindsOf(t *testing.T) {
	t.Parallel()
	for _, role := range streams.Roles {
		kinds := KindsOf(role)
		if len(kinds) != 2 || !slices.Contains(kinds, events.KindDead) {
			t.Errorf("%s: got %v, want its results and dead letters", role, kinds)
		}
		for _, k := range kinds {
			if !slices.Contains(Kinds(), k) {
				t.Errorf("%s: Tail does not read %s", role, k)
			}
		}
	}
	if kinds := KindsOf("writer"); kinds != nil {
		t.Errorf("unknown role: got %v", kinds)
	}
}

func TestIsFrom(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		entry Entry
		want  bool
	}{
		{"result", Entry{Kind: events.KindExecution, Event: &events.Execution{}}, true},
		{"delta", Entry{Kind: events.KindDelta}, true},
		{"its dead letter", Entry{Kind: events.KindDead, Event: &events.DeadLetter{Role: events.RoleGenerator}}, true},
		{"dead letter of another role", Entry{Kind: events.KindDead, Event: &events.DeadLetter{Role: events.RoleCurator}}, false},
		{"unreadable dead letter", Entry{Kind: events.KindDead}, true},
	} {
		if got := test.entry.IsFrom(events.RoleGenerator); got != test.want {
			t.Errorf("%s: got %t", test.name, got)
		}
	}
}

package ops

import (
	"slices"
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events"
)

func TestTailFilter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		flags Tail
		kinds []events.Kind // nil if the flags are invalid
	}{
		{"role", Tail{Role: events.RoleCurator}, []events.Kind{events.KindDelta, events.KindDead}},
		{"kinds", Tail{Kind: []string{"task", "edit"}}, []events.Kind{events.KindTask, events.KindEdit}},
		{"unknown role", Tail{Role: "writer"}, nil},
		{"unknown kind", Tail{Kind: []string{"bullet"}}, nil},
		{"role and kind", Tail{Role: events.RoleCurator, Kind: []string{"task"}}, nil},
		{"negative lines", Tail{Role: events.RoleCurator, Lines: -1}, nil},
	} {
		f, err := test.flags.filter()
		if (program.ExitCode(err) == program.ExitUsage) != (test.kinds == nil) || err == nil && !slices.Equal(f.Kinds, test.kinds) {
			t.Errorf("%s: got kinds %v, error %v", test.name, f.Kinds, err)
		}
	}
}

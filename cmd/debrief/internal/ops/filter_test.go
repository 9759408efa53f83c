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
		{"kinds", Tail{Kind: []string{"task", "edit"}}, []events.Kind{events.KindTask, events.KindEdit}},
		{"unknown kind", Tail{Kind: []string{"bullet"}}, nil},
		{"negative lines", Tail{Kind: []string{"task"}, Lines: -1}, nil},
	} {
		f, err := test.flags.filter()
		if (program.ExitCode(err) == program.ExitUsage) != (test.kinds == nil) || err == nil && !slices.Equal(f.Kinds, test.kinds) {
			t.Errorf("%s: got kinds %v, error %v", test.name, f.Kinds, err)
		}
	}
}

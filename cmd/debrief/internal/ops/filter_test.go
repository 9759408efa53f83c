package ops

import (
	"testing"

	"debrief/cmd/internal/program"
)

func TestInvalidTailFlags(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]*Tail{
		"unknown kind": {Kind: []string{"bullet"}}, "negative lines": {Kind: []string{"task"}, Lines: -1}, "unknown time": {Since: "never"},
	} {
		if err := flags.Run(t.Context(), nil); program.ExitCode(err) != program.ExitUsage {
			t.Errorf("%s: got %v, want the exit code of usage", name, err)
		}
	}
}

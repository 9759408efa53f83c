package train

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
)

func TestWatchOutlastsOutages(t *testing.T) {
	t.Parallel()
	failure := errors.New("failed")
	losses, outage := program.Exit(program.ExitPartial, failure), program.Exit(program.ExitUnreachable, failure)
	for name, tt := range map[string]struct {
		runs   []int // handed over so far
		passes []error
	}{
		"no server at the start": {[]int{0}, []error{outage}},
		"losses":                 {[]int{0, 1, 1, 2}, []error{losses, losses, failure}},
		"an outage":              {[]int{0, 1, 1, 1, 1, 2}, []error{nil, outage, outage, nil, failure}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				looks, passes := 0, 0
				l := &Learn{HandOver: func(context.Context) (int, error) {
					looks++
					return tt.runs[looks-1], nil
				}}
				err := l.watch(t.Context(), zerolog.Nop(), func() error {
					passes++
					return tt.passes[passes-1]
				})
				if !errors.Is(err, failure) || looks != len(tt.runs) || passes != len(tt.passes) {
					t.Errorf("got %d passes in %d looks, %v, want %d in %d", passes, looks, err, len(tt.passes), len(tt.runs))
				}
			})
		})
	}
}

// An outage of the model decides the exit code of a pass that also lost lines: --watch repeats such a pass.
func TestOutageDecidesExitCodeOfPass(t *testing.T) {
	t.Parallel()
	outage := program.Exit(program.ExitUnreachable, errors.New("the model does not answer"))
	for _, tt := range []struct {
		name   string
		losses string
		err    error
		want   int
	}{
		{"nothing", "", nil, 0},
		{"losses", "1 line could not be read", nil, program.ExitPartial},
		{"an outage", "", outage, program.ExitUnreachable},
		{"losses and an outage", "1 line could not be read", outage, program.ExitUnreachable},
	} {
		if got := program.ExitCode(passError(tt.losses, tt.err)); got != tt.want {
			t.Errorf("%s: got exit code %d, want %d", tt.name, got, tt.want)
		}
	}
}

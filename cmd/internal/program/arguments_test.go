package program

import (
	"slices"
	"strings"
	"testing"
)

func TestNegativeNumbersAreValues(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"up --reflections -1":      "up --reflections=-1",
		"up --a=1 -1":              "up --a=1 -1",
		"up --weight -.5 --json":   "up --weight=-.5 --json",
		"up --model -m":            "up --model -m",
		"up -- --reflections -1":   "up -- --reflections -1",
		"submit -1":                "submit -1",
		"up --reflections -1 -1 x": "up --reflections=-1 -1 x",
	} {
		if got := joinNegative(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}

package config_test

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"debrief/events/config"
	"debrief/events/config/configtest"
)

func TestErrorsAreCollected(t *testing.T) {
	t.Parallel()
	var inner, e config.Errors
	if e.Wrap("None", nil); e.Join() != nil {
		t.Error("got an error for nothing")
	}
	config.AtLeast(&inner, "Share", math.NaN(), 0)
	config.AtLeast(&inner, "Fine", 1, 1)
	inner.Add("Low, High", "low must be below high")
	e.Wrap("Gate", inner.Join())
	e.Wrap("File", fs.ErrNotExist)
	err := e.Join()
	if got, want := configtest.Fields(err), []string{"Gate.Share", "Gate.Low, Gate.High", "File"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap its reason", err)
	}
	if got, want := err.Error(), "Gate.Share: must be at least 0, got NaN\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
}

func TestRenameReachesJoinedErrors(t *testing.T) {
	t.Parallel()
	var e config.Errors
	e.Add("Slots", "must be at least 1")
	e.Add("Low, High", "low must be below high")
	got := config.Rename(errors.Join(e.Join(), fs.ErrExist), func(name string) string { return "--" + strings.ToLower(name) })
	if got, want := configtest.Fields(got), []string{"--slots", "--low, --high", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(got, fs.ErrExist) {
		t.Errorf("%v lost an error without fields", got)
	}
	if config.Rename(nil, strings.ToLower) != nil {
		t.Error("got an error for nil")
	}
}

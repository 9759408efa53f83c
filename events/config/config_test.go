package config_test

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"

	"debrief/events/config"
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
	want := "Gate.Share: must be at least 0, got NaN\nGate.Low, Gate.High: low must be below high\nFile: file does not exist"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap its reason", err)
	}
}

func TestRenameReachesJoinedErrors(t *testing.T) {
	t.Parallel()
	var e config.Errors
	e.Add("Slots", "must be at least 1")
	e.Add("Low, High", "low must be below high")
	got := config.Rename(errors.Join(e.Join(), fs.ErrExist), func(name string) string { return "--" + strings.ToLower(name) })
	if want := "--slots: must be at least 1\n--low, --high: low must be below high\nfile already exists"; got.Error() != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(got, fs.ErrExist) {
		t.Errorf("%v lost an error without fields", got)
	}
	if config.Rename(nil, strings.ToLower) != nil {
		t.Error("got an error for nil")
	}
}

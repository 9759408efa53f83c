package config_test

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"debrief/events/config"
)

// fields returns the fields of all joined errors, in order.
func fields(err error) (all [][]string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, fields(err)...)
		}
	} else if e := (*config.FieldError)(nil); errors.As(err, &e) {
		all = append(all, e.Fields)
	}
	return all
}

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
	want := [][]string{{"Gate.Share"}, {"Gate.Low", "Gate.High"}, {"File"}}
	if got := fields(err); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
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
	if want := [][]string{{"--slots"}, {"--low", "--high"}}; !slices.EqualFunc(fields(got), want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !errors.Is(got, fs.ErrExist) {
		t.Errorf("%v lost an error without fields", got)
	}
	if config.Rename(nil, strings.ToLower) != nil {
		t.Error("got an error for nil")
	}
}

package program

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// This file has the checks of a command line that kong does not have.

// checkRivals returns an error for two flags on the command line that exclude each other.
func checkRivals(run *kong.Context) error {
	for _, flag := range flagsOf(run) {
		for _, other := range flagsOf(run) {
			if excludes(flag, other) && onCommandLine(run, flag) && onCommandLine(run, other) {
				return fmt.Errorf("--%s: is set, and so is --%s: choose one", flag.Name, other.Name)
			}
		}
	}
	return nil
}

// checkZeros returns an error for a number that is set to 0 although its library has another default. The library would replace
// the 0 with the default.
func checkZeros(run *kong.Context) error {
	var errs []error
	for _, flag := range flagsOf(run) {
		v := flag.Target
		isZero := (v.CanInt() || v.CanFloat()) && v.IsZero()
		hasLibraryDefault := flag.HasDefault && !flag.Tag.HasDefault // see setDefaults
		if isZero && hasLibraryDefault && !flag.Tag.Has("zero") {
			errs = append(errs, fmt.Errorf("--%s: must not be 0; leave it out for the default, which is %s", flag.Name, flag.Default))
		}
	}
	return errors.Join(errs...)
}

// checkEmpty returns an error for each flag and argument on the command line that is an empty text. A script whose variable has no value
// passes one, and commands would take it for a flag that is left out: erase with an empty --session would erase the playbook.
func checkEmpty(run *kong.Context) error {
	var errs []error
	check := func(value *kong.Value, name string) {
		if isEmptyText(value.Target) {
			fix := "give a value, or leave it out"
			if value.Required {
				fix = "give a value"
			}
			errs = append(errs, fmt.Errorf("%s: is empty: %s", name, fix))
		}
	}
	for _, step := range run.Path {
		switch {
		case step.Resolved: // from the environment or the file, where an empty value sets nothing
		case step.Flag != nil:
			check(step.Flag.Value, "--"+step.Flag.Name)
		case step.Positional != nil && !step.Positional.Passthrough: // else the words are those of another command line
			check(step.Positional, "<"+step.Positional.Name+">")
		}
	}
	return errors.Join(errs...)
}

// isEmptyText reports whether a value is an empty text, an empty list, or a list with an empty text.
func isEmptyText(v reflect.Value) bool {
	switch {
	case v.Kind() == reflect.String:
		return v.Len() == 0
	case v.Kind() != reflect.Slice:
		return false
	case v.Len() == 0:
		return true
	}
	for i := range v.Len() {
		if v.Index(i).Kind() == reflect.String && v.Index(i).Len() == 0 {
			return true
		}
	}
	return false
}

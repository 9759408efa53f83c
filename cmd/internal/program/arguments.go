package program

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// This file has what kong does not do for the arguments of a command line: negative numbers, a clearer error, and three checks.

// negative matches a negative number, which the parser of flags takes for another flag.
var negative = regexp.MustCompile(`^-[0-9.]`)

// joinNegative joins a flag with a negative number behind it: --reflections -1 becomes --reflections=-1. No flag begins with a digit.
func joinNegative(args []string) (joined []string) {
	for i, arg := range args {
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		isValue := i > 0 && negative.MatchString(arg) && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=")
		if isValue {
			joined[len(joined)-1] += "=" + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

// missingArgument matches the error of the parser for a missing argument.
var missingArgument = regexp.MustCompile(`^expected "(<[^<>]+>)`)

// explain returns the error of the parser, or a clearer one for a missing argument and for a flag at the end that has no value.
func explain(err error, args []string) error {
	if m := missingArgument.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s: required", m[1])
	}
	var invalid *kong.ParseError
	if !errors.As(err, &invalid) || invalid.Context == nil || len(args) == 0 {
		return err
	}
	name, isFlag := strings.CutPrefix(args[len(args)-1], "--")
	if !isFlag {
		return err
	}
	lacksValue := false
	eachFlag(invalid.Context.Model.Node, func(flag *kong.Flag) {
		lacksValue = lacksValue || flag.Name == name && !flag.IsBool()
	})
	if !lacksValue {
		return err
	}
	return fmt.Errorf("--%s: has no value", name)
}

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

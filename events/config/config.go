// Package config has the errors of configuration structs, so that all packages report invalid fields in the same form. It
// reads no files, flags or variables: the programs do that.
//
// All configurations of this module follow the same rules. A configuration is a plain struct. The zero value of a field
// selects its default, which the comment of the field states. A field for which "none" is meaningful uses -1 for it.
// WithDefaults returns the configuration with defaults in place of zero fields. Validate accepts zero fields, and returns all
// invalid fields as joined errors of type *FieldError.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// FieldError reports an invalid value of a field, or of several fields that do not fit together.
type FieldError struct {
	// Fields are the Go names of the fields. A field of a nested struct has a path: "Gate.Share".
	Fields []string
	// Err is the reason. Its text does not repeat the name of the field.
	Err error
}

// Error returns the fields and the reason: "Slots: must be at least 1, got 0".
func (e *FieldError) Error() string { return strings.Join(e.Fields, ", ") + ": " + e.Err.Error() }

func (e *FieldError) Unwrap() error { return e.Err }

// Errors collects the errors of a Validate method. The zero value is empty.
type Errors struct{ all []error }

// Add adds an invalid field with a formatted reason. Several fields are separated by commas.
func (e *Errors) Add(field, format string, args ...any) {
	e.Wrap(field, fmt.Errorf(format, args...))
}

// Wrap adds an invalid field with an error as the reason. It ignores a nil error. If err has a *FieldError, field becomes the
// first part of its paths: "Gate" and "Share" give "Gate.Share".
func (e *Errors) Wrap(field string, err error) {
	var inner *FieldError
	switch {
	case err == nil:
	case errors.As(err, &inner):
		e.all = append(e.all, Rename(err, func(name string) string { return field + "." + name }))
	default:
		e.all = append(e.all, &FieldError{strings.Split(field, ", "), err})
	}
}

// AtLeast adds an error if a value is less than the least valid one.
func AtLeast[T cmp.Ordered](e *Errors, field string, got, least T) {
	if !(got >= least) { // also NaN
		e.Add(field, "must be at least %v, got %v", least, got)
	}
}

// Join returns all errors joined, or nil without errors.
func (e *Errors) Join() error { return errors.Join(e.all...) }

// Rename returns an error with other names for its fields, for example with the names of flags. It descends into joined
// errors. Errors without fields stay unchanged.
func Rename(err error, name func(field string) string) error {
	switch e := err.(type) { //nolint:errorlint // the errors of Errors are not wrapped
	case *FieldError:
		names := make([]string, len(e.Fields))
		for i, field := range e.Fields {
			names[i] = name(field)
		}
		return &FieldError{names, e.Err}
	case interface{ Unwrap() []error }:
		var all []error
		for _, err := range e.Unwrap() {
			all = append(all, Rename(err, name))
		}
		return errors.Join(all...)
	}
	return err
}

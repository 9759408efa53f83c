// Package configtest reads the errors of configurations in tests.
package configtest

import (
	"strings"

	"debrief/events/config"
)

// Fields returns the fields of each *config.FieldError in an error, in order: "Slots", or "User, Password" for fields that
// do not fit together. Other errors count as "".
func Fields(err error) []string {
	switch e := err.(type) {
	case nil:
		return nil
	case *config.FieldError:
		return []string{strings.Join(e.Fields, ", ")}
	case interface{ Unwrap() []error }:
		var all []string
		for _, err := range e.Unwrap() {
			all = append(all, Fields(err)...)
		}
		return all
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return Fields(inner)
		}
	}
	return []string{""}
}

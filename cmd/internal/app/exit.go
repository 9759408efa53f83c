package app

import (
	"context"
	"errors"

	"debrief/events/bus"
)

// Exit codes, the same for every command.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2 // usage or configuration
	ExitRefused     = 3 // refused, or in conflict with what is there
	ExitUnreachable = 4
	ExitLosses      = 5 // done, with losses that the output lists
	ExitRed         = 6 // 'debrief status': learning is red
)

// coded is an error that knows its exit code.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

// Exit gives an error its exit code.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// ExitCode is the code that an error ends the program with.
func ExitCode(err error) int {
	var c *coded
	var full *bus.FullError
	var denied *bus.DeniedError
	var unsuitable *bus.UnsuitableError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &full), errors.As(err, &denied), errors.As(err, &unsuitable):
		return ExitRefused
	case errors.Is(err, context.Canceled):
		return ExitFailed
	}
	return ExitFailed
}

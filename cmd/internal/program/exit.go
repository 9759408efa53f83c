package program

import (
	"context"
	"errors"

	"debrief/events/bus"
	"debrief/events/streams"
)

// Exit codes, the same for every command.
const (
	exitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2 // invalid usage or configuration
	ExitRefused     = 3 // refused, or a conflict with the stored state
	ExitUnreachable = 4 // no server, or no result in time
	ExitPartial     = 5 // done, with losses listed in the output
	ExitRed         = 6 // 'debrief status': learning is red
)

// ExitHelp describes the exit codes for the help of a program.
const ExitHelp = `Exit codes:

  0  done
  1  failed
  2  invalid usage or configuration
  3  refused, or a conflict with the stored state
  4  server or model unreachable, or no result in time
  5  done, with losses that are listed
  6  red ('debrief status')`

// codedError is an error with an exit code.
type codedError struct {
	code int
	err  error
}

func (c *codedError) Error() string { return c.err.Error() }
func (c *codedError) Unwrap() error { return c.err }

// Exit adds an exit code to an error. It returns nil for a nil error.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code, err}
}

// ExitCode returns the exit code for an error: 0 for nil, the code that Exit added, or else a code that follows from its type.
func ExitCode(err error) int {
	var c *codedError
	var full *bus.FullError
	var denied *bus.DeniedError
	var unsuitable *streams.ConfigError
	var outage interface{ Unavailable() bool } // of a model
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &full), errors.As(err, &denied), errors.As(err, &unsuitable):
		return ExitRefused
	case bus.Unreachable(err), errors.Is(err, context.DeadlineExceeded), errors.As(err, &outage) && outage.Unavailable():
		return ExitUnreachable
	}
	return ExitFailed
}

package operate

import (
	"context"
	"errors"
	"fmt"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/bus"
)

// letterReader reads dead letters. It is a *bus.DeadLetters, except in tests.
type letterReader interface {
	Get(ctx context.Context, id events.Handle) (*bus.Letter, error)
	List(ctx context.Context, f bus.LetterFilter, fn func(*bus.Letter) error) error
	Event(ctx context.Context, l *bus.Letter) (events.Event, error)
}

// FindLetter returns a dead letter. Its error has the exit code ExitUsage for an invalid id, and ExitRefused for an unknown one.
func FindLetter(ctx context.Context, letters letterReader, id events.Handle) (*bus.Letter, error) {
	if _, _, err := id.Parse(); err != nil {
		return nil, program.Exit(program.ExitUsage, err)
	}
	l, err := letters.Get(ctx, id)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, program.Exit(program.ExitRefused, fmt.Errorf("dead letter %s: not found: requeued, dropped or expired; see 'debrief dead list'", id))
	}
	return l, err
}

// Requeued is the result for one letter. If neither As nor Refused is set, the letter was gone.
type Requeued struct {
	ID      events.Handle `json:"id"`
	As      events.Handle `json:"as,omitempty"`      // the new message
	Subject string        `json:"subject,omitempty"` // of the new message
	Refused string        `json:"refused,omitempty"` // the reason why it was not requeued
}

// RequeueSummary counts the results of a requeue.
type RequeueSummary struct {
	Done, Refused int

	results int      // all results, also of letters that were gone
	last    Requeued // the last refused letter
}

// Add counts a result.
func (s *RequeueSummary) Add(r Requeued) {
	s.results++
	switch {
	case r.Refused != "":
		s.Refused++
		s.last = r
	case r.As != "":
		s.Done++
	}
}

// Err returns nil if no letter was refused. Otherwise it returns an error with the exit code ExitPartial if a letter was requeued, and
// ExitRefused if none was.
func (s *RequeueSummary) Err() error {
	switch {
	case s.Refused == 0:
		return nil
	case s.results == 1:
		return program.Exit(program.ExitRefused, fmt.Errorf("dead letter %s: not requeued: %s", s.last.ID, s.last.Refused))
	case s.Done == 0:
		return program.Exit(program.ExitRefused, errors.New("no dead letter was requeued; see above"))
	}
	return program.Exit(program.ExitPartial, fmt.Errorf("%s not requeued; see above", CountLetters(s.Refused)))
}

// CountLetters formats a number of dead letters.
func CountLetters(n int) string { return term.Plural(n, "dead letter") }

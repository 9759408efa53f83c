package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

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

// CountLetters formats a number of dead letters.
func CountLetters(n int) string { return term.Plural(n, "dead letter") }

// LetterRow describes a dead letter in a list.
type LetterRow struct {
	ID       events.Handle `json:"id"`
	Role     string        `json:"role"`
	Book     string        `json:"book"`
	Kind     string        `json:"kind"` // empty if the subject is invalid
	Time     time.Time     `json:"time"`
	Attempts int           `json:"attempts"`
	Code     string        `json:"code"`
	Reason   string        `json:"reason"`
}

func newLetterRow(l *bus.Letter) LetterRow {
	kind, _, _ := events.ParseSubject(l.Subject)
	return LetterRow{
		ID: l.Handle(), Role: l.Role, Book: string(l.Book), Kind: string(kind), Time: cmp.Or(l.Time, l.Stored),
		Attempts: l.Attempts, Code: string(l.Code), Reason: l.Reason,
	}
}

// ListLetters returns the selected dead letters, oldest first.
func ListLetters(ctx context.Context, letters letterReader, f bus.LetterFilter) (all []LetterRow, err error) {
	err = letters.List(ctx, f, func(l *bus.Letter) error {
		all = append(all, newLetterRow(l))
		return nil
	})
	return all, err
}

// LetterDetails is a complete dead letter.
type LetterDetails struct {
	LetterRow
	Stream     string              `json:"stream"`
	Seq        uint64              `json:"seq"`
	Subject    string              `json:"subject"`
	Header     map[string][]string `json:"header"`
	Event      events.Event        `json:"event,omitempty"`
	Unreadable string              `json:"unreadable,omitempty"` // the error if the event could not be decoded
	Raw        []byte              `json:"raw,omitempty"`        // the original bytes of such an event
}

// ShowLetter returns the details of a dead letter with its event. It returns an error if the server did not answer. An event that cannot be
// decoded is part of the result.
func ShowLetter(ctx context.Context, letters letterReader, l *bus.Letter) (*LetterDetails, error) {
	d := &LetterDetails{LetterRow: newLetterRow(l), Stream: l.Stream, Seq: l.DeadLetter.Seq, Subject: l.Subject, Header: l.Header}
	event, err := letters.Event(ctx, l)
	switch {
	case err == nil:
		d.Event = event
	case bus.Unreachable(err):
		return nil, err
	default:
		d.Unreadable, d.Raw = err.Error(), l.Data
	}
	return d, nil
}

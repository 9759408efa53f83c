package operate

import (
	"cmp"
	"context"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// LetterRow describes a dead letter in a list.
type LetterRow struct {
	ID         events.Handle `json:"id"`
	Role       string        `json:"role"`
	Book       string        `json:"book"`
	Kind       string        `json:"kind"` // empty if the subject is invalid
	Time       time.Time     `json:"time"`
	Deliveries int           `json:"attempts"`
	Code       string        `json:"code"`
	Reason     string        `json:"reason"`
}

func newLetterRow(l *bus.Letter) LetterRow {
	kind, _, _ := events.ParseSubject(l.Subject)
	return LetterRow{l.Handle(), l.Role, string(l.Book), string(kind), cmp.Or(l.Time, l.Stored), l.Deliveries, string(l.Code), l.Reason}
}

type lister interface {
	List(ctx context.Context, f bus.LetterFilter, fn func(*bus.Letter) error) error
}

// ListLetters returns the selected dead letters, oldest first.
func ListLetters(ctx context.Context, s lister, f bus.LetterFilter) (all []LetterRow, err error) {
	err = s.List(ctx, f, func(l *bus.Letter) error {
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

type decoder interface {
	Event(ctx context.Context, l *bus.Letter) (events.Event, error)
}

// ShowLetter returns the details of a dead letter with its event. It returns an error if the server did not answer. An event that cannot be
// decoded is part of the result.
func ShowLetter(ctx context.Context, s decoder, l *bus.Letter) (*LetterDetails, error) {
	d := &LetterDetails{LetterRow: newLetterRow(l), Stream: l.Stream, Seq: l.DeadLetter.Seq, Subject: l.Subject, Header: l.Header}
	event, err := s.Event(ctx, l)
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

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
	return LetterRow{
		ID: l.Handle(), Role: l.Role, Book: string(l.Book), Kind: string(kind), Time: cmp.Or(l.Time, l.Stored),
		Deliveries: l.Deliveries, Code: string(l.Code), Reason: l.Reason,
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

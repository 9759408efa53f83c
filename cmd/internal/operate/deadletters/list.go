package deadletters

import (
	"cmp"
	"context"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// Row describes a dead letter in a list.
type Row struct {
	ID         events.Handle `json:"id"`
	Role       string        `json:"role"`
	Book       string        `json:"book"`
	Kind       string        `json:"kind"` // empty if the subject is invalid
	Time       time.Time     `json:"time"`
	Deliveries int           `json:"attempts"`
	Code       string        `json:"code"`
	Reason     string        `json:"reason"`
}

func newRow(l *bus.Letter) Row {
	kind, _, _ := events.ParseSubject(l.Subject)
	return Row{l.Handle(), l.Role, string(l.Book), string(kind), cmp.Or(l.Time, l.Stored), l.Deliveries, string(l.Code), l.Reason}
}

type lister interface {
	List(ctx context.Context, f bus.LetterFilter, fn func(*bus.Letter) error) error
}

// List returns the selected dead letters, oldest first.
func List(ctx context.Context, s lister, f bus.LetterFilter) (all []Row, err error) {
	err = s.List(ctx, f, func(l *bus.Letter) error {
		all = append(all, newRow(l))
		return nil
	})
	return all, err
}

// Details is a complete dead letter.
type Details struct {
	Row
	Stream  string              `json:"stream"`
	Seq     uint64              `json:"seq"`
	Subject string              `json:"subject"`
	Header  map[string][]string `json:"header"`
	Event   events.Event        `json:"event,omitempty"`
	// Unreadable is the error if the event could not be decoded; Raw then has the original bytes.
	Unreadable string `json:"unreadable,omitempty"`
	Raw        []byte `json:"raw,omitempty"`
}

type decoder interface {
	finder
	Event(ctx context.Context, l *bus.Letter) (events.Event, error)
}

// Show returns a dead letter with its event. It returns the errors of Find, and an error if the server did not answer. An
// event that cannot be decoded is part of the result.
func Show(ctx context.Context, s decoder, id events.Handle) (*Details, error) {
	l, err := Find(ctx, s, id)
	if err != nil {
		return nil, err
	}
	d := &Details{Row: newRow(l), Stream: l.Stream, Seq: l.DeadLetter.Seq, Subject: l.Subject, Header: l.Header}
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

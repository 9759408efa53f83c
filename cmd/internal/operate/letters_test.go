package operate

import (
	"context"
	"errors"
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
)

// fakeLetters has one letter. Each method returns its error.
type fakeLetters struct{ find, change error }

func (f fakeLetters) Get(context.Context, events.Handle) (*bus.Letter, error) {
	return &bus.Letter{DeadLetter: &events.DeadLetter{Subject: "debrief.task.default"}}, f.find
}

func (f fakeLetters) Requeue(context.Context, *bus.Letter) (bus.Receipt, error) {
	return bus.Receipt{Handle: "9-ab12cd34"}, f.change
}

const id events.Handle = "5-ab12cd34"

func TestRequeue(t *testing.T) {
	t.Parallel()
	other := errors.New("undecodable")
	for _, test := range []struct {
		name           string
		id             events.Handle
		cancelled      bool
		letters        fakeLetters
		as             events.Handle
		refused, fails bool
	}{
		{name: "requeued", id: id, as: "9-ab12cd34"},
		{name: "undecodable", id: id, letters: fakeLetters{change: other}, refused: true},
		{name: "cancelled", id: id, cancelled: true, letters: fakeLetters{change: other}, fails: true},
		{name: "stream is full", id: id, letters: fakeLetters{change: &bus.FullError{}}, fails: true},
		{name: "missing", id: id, letters: fakeLetters{find: bus.ErrNotFound}, fails: true},
		{name: "invalid id", id: "5", fails: true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if test.cancelled {
			cancel()
		}
		r, err := RequeueLetter(ctx, test.letters, test.id)
		cancel()
		if r.ID != test.id || r.As != test.as || (r.Subject != "") != (test.as != "") || (r.Refused != "") != test.refused || (err != nil) != test.fails {
			t.Errorf("%s: got %+v, error %v", test.name, r, err)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	done, refused, gone := Requeued{ID: id, As: id}, Requeued{ID: id, Refused: "undecodable"}, Requeued{ID: id}
	for _, test := range []struct {
		name    string
		results []Requeued
		done    int
		code    int
	}{
		{"none", nil, 0, 0},
		{"all", []Requeued{done, done}, 2, 0},
		{"gone", []Requeued{gone, done}, 1, 0},
		{"one refused", []Requeued{refused}, 0, program.ExitRefused},
		{"all refused", []Requeued{refused, refused}, 0, program.ExitRefused},
		{"gone or refused", []Requeued{gone, refused}, 0, program.ExitRefused},
		{"some refused", []Requeued{done, refused}, 1, program.ExitPartial},
	} {
		var s RequeueSummary
		for _, r := range test.results {
			s.Add(r)
		}
		err := s.Err()
		if s.Done != test.done || (err == nil) != (test.code == 0) || err != nil && program.ExitCode(err) != test.code {
			t.Errorf("%s: got %d requeued, error %v", test.name, s.Done, err)
		}
	}
}

package deadletters

import (
	"context"
	"errors"
	"testing"

	"debrief/cmd/internal/app"
	"debrief/events"
	"debrief/events/bus"
)

// fakeLetters has one letter. Each method returns its error.
type fakeLetters struct{ find, change error }

func (f fakeLetters) Letter(context.Context, events.Handle) (*bus.Letter, error) {
	return &bus.Letter{DeadLetter: &events.DeadLetter{Subject: "debrief.task.default"}}, f.find
}

func (f fakeLetters) Requeue(context.Context, *bus.Letter) (bus.Receipt, error) {
	return bus.Receipt{Handle: "9-ab12cd34"}, f.change
}

func (f fakeLetters) Drop(context.Context, *bus.Letter) error { return f.change }

const id events.Handle = "5-ab12cd34"

func TestRequeue(t *testing.T) {
	t.Parallel()
	other := errors.New("undecodable")
	for _, test := range []struct {
		name            string
		id              events.Handle
		many, cancelled bool
		letters         fakeLetters
		as              events.Handle
		refused, fails  bool
	}{
		{name: "requeued", id: id, as: "9-ab12cd34"},
		{name: "undecodable", id: id, letters: fakeLetters{change: other}, refused: true},
		{name: "undecodable of many", id: id, many: true, letters: fakeLetters{change: other}, refused: true},
		{name: "cancelled", id: id, cancelled: true, letters: fakeLetters{change: other}, fails: true},
		{name: "stream is full", id: id, letters: fakeLetters{change: &bus.FullError{}}, fails: true},
		{name: "missing", id: id, letters: fakeLetters{find: bus.ErrNotFound}, fails: true},
		{name: "missing of many", id: id, many: true, letters: fakeLetters{find: bus.ErrNotFound}},
		{name: "unreadable of many", id: id, many: true, letters: fakeLetters{find: other}, fails: true},
		{name: "invalid id", id: "5", many: true, fails: true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if test.cancelled {
			cancel()
		}
		r, err := Requeue(ctx, test.letters, test.id, test.many)
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
		{"one refused", []Requeued{refused}, 0, app.ExitRefused},
		{"all refused", []Requeued{refused, refused}, 0, app.ExitRefused},
		{"gone or refused", []Requeued{gone, refused}, 0, app.ExitRefused},
		{"some refused", []Requeued{done, refused}, 1, app.ExitPartial},
	} {
		var s Summary
		for _, r := range test.results {
			s.Add(r)
		}
		err := s.Err()
		if s.Done != test.done || (err == nil) != (test.code == 0) || err != nil && app.ExitCode(err) != test.code {
			t.Errorf("%s: got %d requeued, error %v", test.name, s.Done, err)
		}
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		many    bool
		letters fakeLetters
		n       int
		fails   bool
	}{
		{name: "dropped", n: 2},
		{name: "missing", letters: fakeLetters{find: bus.ErrNotFound}, fails: true},
		{name: "missing of many", many: true, letters: fakeLetters{find: bus.ErrNotFound}},
		{name: "refused by the server", many: true, letters: fakeLetters{change: errors.New("denied")}, fails: true},
	} {
		n, err := Drop(t.Context(), test.letters, []events.Handle{id, "6-ab12cd34"}, test.many)
		if n != test.n || (err != nil) != test.fails {
			t.Errorf("%s: got %d, error %v", test.name, n, err)
		}
	}
}

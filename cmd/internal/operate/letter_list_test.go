package operate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
)

// storedLetters has some letters. Event returns its error.
type storedLetters struct {
	letters []*bus.Letter
	decode  error
}

func (s storedLetters) List(_ context.Context, _ bus.LetterFilter, fn func(*bus.Letter) error) error {
	for _, l := range s.letters {
		if err := fn(l); err != nil {
			return err
		}
	}
	return nil
}

func (s storedLetters) Get(_ context.Context, id events.Handle) (*bus.Letter, error) {
	for _, l := range s.letters {
		if l.Handle() == id {
			return l, nil
		}
	}
	return nil, bus.ErrNotFound
}

func (s storedLetters) Event(context.Context, *bus.Letter) (events.Event, error) {
	if s.decode != nil {
		return new(events.Task), s.decode // the event has no use
	}
	return &events.Task{ID: "t"}, nil
}

func TestList(t *testing.T) {
	t.Parallel()
	failed, stored := time.Unix(1000, 0), time.Unix(2000, 0)
	letter := &events.DeadLetter{Book: "b", Subject: "debrief.task.b", Role: events.RoleGenerator, Attempts: 5, Reason: "no answer", Time: failed}
	s := storedLetters{letters: []*bus.Letter{
		{DeadLetter: letter, LetterSeq: 7, Stored: stored},
		{DeadLetter: &events.DeadLetter{Subject: "elsewhere"}, LetterSeq: 8, Stored: stored},
	}}
	got, err := ListLetters(t.Context(), s, bus.LetterFilter{})
	want := []LetterRow{
		{ID: s.letters[0].Handle(), Role: events.RoleGenerator, Book: "b", Kind: "task", Time: failed, Attempts: 5, Reason: "no answer"},
		{ID: s.letters[1].Handle(), Time: stored},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	l := &bus.Letter{DeadLetter: &events.DeadLetter{Subject: "debrief.task.b", Stream: events.StreamTasks, Seq: 3, Data: []byte("raw")}, LetterSeq: 7}
	for _, test := range []struct {
		name       string
		decode     error
		unreadable bool
		code       int
	}{
		{name: "decoded"},
		{name: "unreadable", decode: errors.New("unknown field"), unreadable: true},
		{name: "outage", decode: fmt.Errorf("read the payload: %w", nats.ErrTimeout), code: program.ExitUnreachable},
	} {
		d, err := ShowLetter(t.Context(), storedLetters{decode: test.decode}, l)
		if program.ExitCode(err) != test.code {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err != nil {
			continue
		}
		if d.ID != l.Handle() || d.Seq != 3 || d.Stream != events.StreamTasks {
			t.Errorf("%s: got %+v", test.name, d)
		}
		if (d.Event == nil) != test.unreadable || (d.Unreadable != "") != test.unreadable || (string(d.Raw) == "raw") != test.unreadable {
			t.Errorf("%s: got event %v, error %q, bytes %q", test.name, d.Event, d.Unreadable, d.Raw)
		}
	}
}

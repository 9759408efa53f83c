package operate

import (
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
)

const id events.Handle = "5-ab12cd34"

func TestFindLetter(t *testing.T) {
	t.Parallel()
	l := &bus.Letter{DeadLetter: &events.DeadLetter{Subject: "debrief.task.b"}, LetterSeq: 7}
	for id, code := range map[events.Handle]int{l.Handle(): 0, "8-ab12cd34": program.ExitRefused, "8": program.ExitUsage} {
		got, err := FindLetter(t.Context(), storedLetters{letters: []*bus.Letter{l}}, id)
		if program.ExitCode(err) != code || err == nil && got != l {
			t.Errorf("%s: got %v, error %v, want the exit code %d", id, got, err, code)
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

package operate

import (
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
)

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

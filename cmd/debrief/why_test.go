package main

import (
	"testing"

	"debrief/playbook/history"

	book "debrief/playbook"
)

// TestManyOutcomesAreOneLine: a bullet on trial has thousands of them.
func TestManyOutcomesAreOneLine(t *testing.T) {
	t.Parallel()
	trial := func(number int, seen ...book.Seen) history.Event {
		return history.Event{Kind: book.Trial, Bullet: "a", Op: book.Op{Kind: book.Trial, Case: number, Seen: seen}}
	}
	all := []history.Event{trial(1, book.Seen{Arm: book.ArmShown, Score: 10}, book.Seen{Arm: book.ArmWithheld})}
	for range 1000 {
		all = append(all, trial(1, book.Seen{Arm: book.ArmShown, Score: 5}))
	}
	all = append(
		all, trial(1, book.Seen{Arm: book.ArmShown, Score: 10, Undo: true}, book.Seen{Arm: book.ArmShown, Score: 5}),
		trial(2, book.Seen{Arm: book.ArmOpen, Score: 10}),
	)
	some := gathered(all)
	if len(some) != 2 {
		t.Fatalf("got %d events, want one a case", len(some))
	}
	if got, want := tried(some[0].Op.Seen), "outcomes: shown 1001 with a mean score of 0.50, withheld 1 with a mean score of 0.00, 1 outcome corrected"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(all[0].Op.Seen) != 2 {
		t.Error("what was gathered from has changed")
	}
}

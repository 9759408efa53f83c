package main

import (
	"testing"

	"debrief/cmd/internal/program"
)

// TestInvalidRoundsAreAnErrorOfUsage checks the exit code, by which a deployment knows that a restart does not help.
func TestInvalidRoundsAreAnErrorOfUsage(t *testing.T) {
	t.Parallel()
	c := &command{ServeFlags: program.ServeFlags{ServeOnly: true}, Rounds: 4}
	c.Replicas = 1
	if err := c.Check(); program.ExitCode(err) != program.ExitUsage {
		t.Errorf("got exit code %d for %v, want %d", program.ExitCode(err), err, program.ExitUsage)
	}
	c.Rounds = 3
	if err := c.Check(); err != nil {
		t.Errorf("3 rounds: got %v", err)
	}
}

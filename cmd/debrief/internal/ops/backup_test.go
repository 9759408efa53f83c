package ops

import (
	"strings"
	"testing"

	"debrief/cmd/internal/operate/backup"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestRestoreRefusesFewerReplicas checks that a restore needs --fewer-replicas to reduce the replicas of a stream.
func TestRestoreRefusesFewerReplicas(t *testing.T) {
	t.Parallel()
	manifest := func(replicas int) *backup.Manifest {
		return &backup.Manifest{Streams: []backup.Stream{{Name: "TASKS", Replicas: 1}, {Name: "DELTAS", Replicas: replicas}}}
	}
	for _, row := range []struct {
		name, nats    string
		had, replicas int
		fewer         bool
		want          string
	}{
		{"three of three", "nats://somewhere:4222", 3, 3, false, ""},
		{"one of three", "nats://somewhere:4222", 3, 1, false, "--replicas 3"},
		{"one of three, with --fewer-replicas", "nats://somewhere:4222", 3, 1, true, ""},
		{"one of three, in a directory", "", 3, 1, false, ""},
		{"three of one", "nats://somewhere:4222", 1, 3, false, ""},
	} {
		b := backupRestore{Fewer: row.fewer, NATSFlags: cli.NATSFlags{ServerFlags: cli.ServerFlags{NATS: program.NATS{NATS: row.nats, Replicas: row.replicas}}}}
		err := b.checkReplicas(manifest(row.had))
		if row.want == "" && err != nil || row.want != "" && (program.ExitCode(err) != program.ExitUsage || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "--fewer-replicas")) {
			t.Errorf("%s: got %v, want %q", row.name, err, row.want)
		}
	}
}

// TestFailedRestoreAdvice checks that --replace is advised only after a restore has deleted streams. The backup of the test has no files.
func TestFailedRestoreAdvice(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	b := backupRestore{From: "monday"}
	err := b.restore(t.Context(), &program.Common{}, &cli.Session{Conn: conn}, &backup.Manifest{Streams: []backup.Stream{{Name: events.StreamTasks}}})
	if program.ExitCode(err) != program.ExitRefused || !strings.HasPrefix(err.Error(), "monday: invalid backup: TASKS/") || strings.Contains(err.Error(), "--replace") {
		t.Errorf("got exit code %d, %v, want that the backup is invalid, without --replace", program.ExitCode(err), err)
	}
}

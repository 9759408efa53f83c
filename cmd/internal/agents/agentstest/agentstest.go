// Package agentstest has what tests of hooks, MCP and OTLP share: roles, and the stored events.
package agentstest

import (
	"context"
	"testing"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
)

// Run runs roles until the end of the test.
func Run(t testing.TB, conn *bus.Conn, roles ...program.Role) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, conn, roles...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Stored returns the events of a type in the streams of executions and reflections, oldest first.
func Stored[T events.Event](t testing.TB, conn *bus.Conn) (all []T) {
	t.Helper()
	for _, stream := range []string{events.StreamExecutions, events.StreamReflections} {
		err := conn.Events.ReadStored(t.Context(), stream, ">", func(s bus.Stored) error {
			if e, ok := s.Event.(T); ok {
				all = append(all, e)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

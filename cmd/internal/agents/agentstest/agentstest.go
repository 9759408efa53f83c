// Package agentstest has what tests of hooks, MCP and OTLP share: tokens of agents, roles, and the stored events.
package agentstest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// Grant is a token to create. Without books it permits all.
type Grant struct {
	Name   string
	Scopes []tokens.Scope
	Books  []playbook.Book
}

// Tokens writes a file of tokens. It returns its name, and the secrets by the names of the tokens.
func Tokens(t testing.TB, grants ...Grant) (path string, secrets map[string]string) {
	t.Helper()
	path, secrets = filepath.Join(t.TempDir(), "tokens.yaml"), map[string]string{}
	file := ""
	for _, g := range grants {
		secret, entry, err := tokens.New(g.Name, g.Scopes, g.Books)
		if err != nil {
			t.Fatal(err)
		}
		secrets[g.Name], file = secret, file+entry
	}
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, secrets
}

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

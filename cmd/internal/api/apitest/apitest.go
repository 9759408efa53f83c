// Package apitest has what tests of the API and of its clients share: files of tokens, roles, and the stored events.
package apitest

import (
	"context"
	"net/netip"
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
	Name    string
	Scopes  []tokens.Scope
	Books   []playbook.Book
	Proxies []netip.Prefix
}

// Write writes a file of tokens into a directory. It returns its name, and the secrets by the names of the tokens.
func Write(t testing.TB, dir string, grants ...Grant) (path string, secrets map[string]string) {
	t.Helper()
	path, secrets = filepath.Join(dir, "tokens.yaml"), map[string]string{}
	file := ""
	for _, g := range grants {
		secret, entry, err := tokens.New(g.Name, g.Scopes, g.Books, g.Proxies...)
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

// Load writes a file of tokens into a directory, and reads it.
func Load(t testing.TB, dir string, grants ...Grant) (set *tokens.Set, secrets map[string]string) {
	t.Helper()
	path, secrets := Write(t, dir, grants...)
	set, err := tokens.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set, secrets
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
		err := conn.Events.Scan(t.Context(), stream, ">", 1, func(s bus.Stored) error {
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

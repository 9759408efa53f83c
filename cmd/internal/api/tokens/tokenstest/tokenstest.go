// Package tokenstest writes files of tokens for tests.
package tokenstest

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"debrief/cmd/internal/api/tokens"
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

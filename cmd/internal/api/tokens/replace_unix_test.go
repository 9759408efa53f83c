//go:build unix

package tokens

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRootKeepsTheOwner checks that the user of the gateway can read its file after root has added a token.
func TestRootKeepsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const user, group = 4711, 4712
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	for _, name := range []string{"first", "second"} {
		if _, err := Add(path, name, []Scope{Context}, nil); err != nil {
			t.Fatal(err)
		}
		if name == "first" {
			if err := os.Chown(path, user, group); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != user || s.Gid != group || info.Mode().Perm() != 0o600 {
		t.Errorf("got owner %d, group %d and mode %o", s.Uid, s.Gid, info.Mode().Perm())
	}
}

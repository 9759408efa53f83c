package programs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLinkKeepsTheOldProgram checks that a newer build, which replaces the file as go build does, leaves the linked one.
func TestLinkKeepsTheOldProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	built, linked := filepath.Join(dir, "built"), filepath.Join(dir, "linked")
	if err := os.WriteFile(built, []byte("old"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Link(built, linked); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(built); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(built, []byte("new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(linked); err != nil || string(got) != "old" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := Link(built, linked); err == nil {
		t.Error("replaced an existing program, want an error")
	}
}

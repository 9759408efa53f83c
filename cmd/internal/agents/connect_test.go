package agents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRenamedProgramIsRefused connects with a program of another name. Its hooks would not be found later: a second call would add them again,
// and a removal would leave them.
func TestRenamedProgramIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "repo", ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Agent: "claude-code", Dir: filepath.Join(dir, "repo"), Home: dir, Settings: filepath.Join(dir, "agents.json"), State: filepath.Join(dir, "state"),
		Book: "b", NoMCP: true,
	}
	for name, isValid := range map[string]bool{"/opt/debrief": true, "/opt/my tools/debrief": true, "/opt/debrief-2": false, "/opt/de\"brief/debrief": false} {
		o.Executable = name
		_, err := Connect(o)
		if isValid && err != nil || !isValid && (err == nil || !strings.Contains(err.Error(), "debrief")) {
			t.Errorf("%s: got %v, want that it is valid: %t", name, err, isValid)
		}
	}
}

// TestBackupsPrecedeTheChanges applies a plan whose second file cannot be written. The backup of the first one is stored all the same, so that it can
// be restored byte for byte.
func TestBackupsPrecedeTheChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.json"), filepath.Join(dir, "second.json")
	if err := os.WriteFile(first, []byte("{ }"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(second, "in the way"), 0o700); err != nil { // a directory in place of the file
		t.Fatal(err)
	}
	p := &Plan{options: Options{State: filepath.Join(dir, "state")}, gitDir: dir, backups: backups{}, Files: []File{
		{Name: first, Before: []byte("{ }"), After: []byte(`{"hooks": 1}`)}, {Name: second, After: []byte("{}")},
	}}
	if err := p.Apply(); err == nil {
		t.Fatal("got no error, want one for the second file")
	}
	stored, err := os.ReadFile(p.backupsFile())
	if err != nil {
		t.Fatal(err)
	}
	var kept backups
	if err := json.Unmarshal(stored, &kept); err != nil || string(kept[first].Before) != "{ }" {
		t.Errorf("got the backups %s, %v, want the first file before the change", stored, err)
	}
}

// TestShellFindsTheProgram runs a command of a hook in a shell, for paths with characters that a shell replaces.
func TestShellFindsTheProgram(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the agents use another shell")
	}
	for _, name := range []string{"plain", "two words", "$HOME", "a`b`", "it's", "(1)&;"} {
		program := filepath.Join(t.TempDir(), name, "debrief")
		if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho found\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		command := quoted(program) + " hook claude-code"
		if !ourCommand.MatchString(command) {
			t.Errorf("%s: a removal does not find %s", name, command)
		}
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil || string(out) != "found\n" {
			t.Errorf("%s: got %q, %v", command, out, err)
		}
	}
}

// Package deploy contains the configuration files of deployments, and tests that check them against the programs.
package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"debrief/integration/programs"
)

// binaries is the directory for the built programs. TestMain creates it; build fills it.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "debrief-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // best effort: it is in the temporary directory
	os.Exit(code)
}

// build builds the programs once.
var build = sync.OnceValue(func() error { return programs.Build("..", binaries) })

// program returns the path of a built program.
func program(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binaries, name)
}

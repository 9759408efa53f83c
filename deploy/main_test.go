// Package deploy contains the configuration files of deployments, and tests that check them against the programs.
package deploy

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

// build builds the programs as deploy/compose does, once.
var build = sync.OnceValue(func() error {
	// The test cache depends on the files that the test opens, but not on those that a child process opens.
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binaries+string(filepath.Separator),
		"./cmd/...", "github.com/nats-io/nats-server/v2")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", withoutRevision)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
})

// withoutRevision makes builds work if the checkout belongs to another user.
const withoutRevision = "GOFLAGS=-buildvcs=false"

// program returns the path of a built program.
func program(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binaries, name)
}

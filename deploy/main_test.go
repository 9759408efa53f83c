// Package deploy is no code: it is what runs Debrief elsewhere than in a terminal, as files, and the tests that these
// files say what the programs know, and run.
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

// binaries is where the programs are built to; made by TestMain, filled when first needed.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "debrief-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // the system's temporary directory is swept
	os.Exit(code)
}

// build builds the programs as deploy/compose does, once.
var build = sync.OnceValue(func() error {
	// The test cache remembers what a test opens, and not what a command that it runs does.
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

// withoutRevision because a build machine may have checked out as somebody else.
const withoutRevision = "GOFLAGS=-buildvcs=false"

// program is the path of a built program.
func program(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binaries, name)
}

// Package programs builds the programs of this module for tests: once for all packages and runs that test the same code.
package programs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Command is the command in cmd/debrief/README.md to build the programs: static and small.
const Command = "CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./cmd/..."

// WithoutRevision makes builds work if the checkout belongs to another user.
const WithoutRevision = "GOFLAGS=-buildvcs=false"

// natsServer is the package of the server that the images contain.
const natsServer = "github.com/nats-io/nats-server/v2"

// Build builds the programs and the NATS server of the images, and links the files into dir. root is the directory of the module.
// The build is in a directory of the user's cache, where go build only links what changed since the last test. Because dir has
// links, it keeps its programs if another test builds newer ones.
func Build(root, dir string) error {
	cache, err := cacheDir(root)
	if err != nil {
		return err
	}
	lock := flock.New(cache + ".lock")
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock the built programs: %w", err)
	}
	defer lock.Close()
	cmd := exec.Command("bash", "-c", strings.Replace(Command, " bin/ ", ` "$PROGRAMS"/ `, 1)+" "+natsServer)
	cmd.Env = append(os.Environ(), WithoutRevision, "PROGRAMS="+cache)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	files, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := Link(filepath.Join(cache, f.Name()), filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return Watch(root)
}

// cacheDir returns the directory for the programs of a checkout. It creates it.
func cacheDir(root string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(user, "debrief-tests", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	return dir, os.MkdirAll(dir, 0o700)
}

// Link makes a hard link, or a copy if the directories are on different file systems.
func Link(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// Watch opens every Go file of the module. The test cache depends on the files that the test opens, but not on those that a
// child process opens. Without Watch, the cache would hide failures after a change.
func Watch(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
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
}

package natsd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2/maybe"
)

const (
	lockName   = "debrief.lock"   // locked, never written
	holderName = "debrief.holder" // describes the owner; a separate file, because Windows denies reading a locked file
)

// InUseError is returned if another process has locked the directory.
type InUseError struct {
	Dir string
	PID int    // 0 if unknown
	URL string // listen address; empty if it does not listen
}

func (e *InUseError) Error() string {
	owner := "another process"
	if e.PID != 0 {
		owner = fmt.Sprintf("process %d", e.PID)
	}
	if e.URL == "" {
		return fmt.Sprintf("%s is in use by %s, which does not listen: wait until it ends", e.Dir, owner)
	}
	return fmt.Sprintf("%s is in use by %s: connect to it at %s", e.Dir, owner, e.URL)
}

// holder is the content of the holder file: the process that owns the directory.
type holder struct {
	PID int    `json:"pid"`
	URL string `json:"url,omitempty"`
}

// holderWait is the time to wait for a missing holder file of a locked directory. Its owner is starting or
// stopping.
const holderWait = 3 * time.Second

// lock is a locked directory. The operating system releases the lock when the process ends, even if it is killed.
type lock struct {
	dir  string
	file *flock.Flock
}

// HasStore reports whether dir has the streams of a server.
func HasStore(dir string) bool {
	i, err := os.Stat(filepath.Join(dir, "jetstream"))
	return err == nil && i.IsDir()
}

// lockDir creates the directory if necessary, and locks it.
func lockDir(dir string) (*lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dirError(dir, err)
	}
	l := &lock{dir, flock.New(filepath.Join(dir, lockName))}
	for deadline := time.Now().Add(holderWait); ; time.Sleep(20 * time.Millisecond) {
		ok, err := l.file.TryLock()
		if err != nil {
			return nil, dirError(dir, err)
		}
		if ok {
			break
		}
		// Race: a killed owner has left its holder file, and the next owner has the lock but has not removed the
		// file yet. The error then names the dead process. The error itself is correct.
		h, err := l.holder()
		if err == nil || time.Now().After(deadline) {
			return nil, &InUseError{Dir: dir, PID: h.PID, URL: h.URL}
		}
	}
	if err := os.Remove(l.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.release()
		return nil, dirError(dir, err)
	}
	return l, nil
}

func dirError(dir string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("data directory %s: %w", dir, syscall.ENOTDIR)
	}
	return fmt.Errorf("data directory %s: %w", dir, err)
}

func (l *lock) path() string { return filepath.Join(l.dir, holderName) }

func (l *lock) holder() (h holder, err error) {
	data, err := os.ReadFile(l.path())
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(data, &h)
}

// announce replaces the holder file.
func (l *lock) announce(url string) error {
	data, err := json.Marshal(holder{os.Getpid(), url})
	if err != nil {
		return err
	}
	if err := maybe.WriteFile(l.path(), data, 0o600); err != nil {
		return dirError(l.dir, err)
	}
	return nil
}

// release removes the holder file and unlocks the directory.
func (l *lock) release() {
	_ = os.Remove(l.path()) // without the lock the file is ignored
	_ = l.file.Unlock()     // the file has no data to lose
}

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
)

const (
	lockName   = "debrief.lock"   // held, never written
	holderName = "debrief.holder" // who holds it; in a file of its own because on Windows a locked one cannot be read
)

// InUseError is returned when another process keeps the directory.
type InUseError struct {
	Dir string
	PID int    // 0 if it did not say
	URL string // where it listens; empty if nowhere
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	if e.URL == "" {
		return fmt.Sprintf("%s is in use by %s, which does not listen: stop it, or start it with --listen", e.Dir, who)
	}
	return fmt.Sprintf("%s is in use by %s: connect to it at %s", e.Dir, who, e.URL)
}

// holder is what the process that keeps a directory tells the others.
type holder struct {
	PID int    `json:"pid"`
	URL string `json:"url,omitempty"`
}

// holderWait is for how long a directory that is held and does not say by whom yet is looked at again: its holder is
// starting, or on its way out.
const holderWait = 3 * time.Second

// lock is a directory kept by this process. The operating system ends it with the process, however that dies.
type lock struct {
	dir  string
	file *flock.Flock
}

// lockDir makes the directory where there is none, and keeps it.
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
		// Race: a killed holder left its note, and the next one has the lock and has not removed the note yet. For that
		// instant the dead process is named; the refusal itself is right.
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
		return fmt.Errorf("data directory %s: is not a directory", dir)
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

// announce tells who keeps the directory. The note appears whole: it is renamed into place.
func (l *lock) announce(url string) error {
	data, err := json.Marshal(holder{os.Getpid(), url})
	if err != nil {
		return err
	}
	tmp := l.path() + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return dirError(l.dir, err)
	}
	return os.Rename(tmp, l.path())
}

// release lets the next one in.
func (l *lock) release() {
	_ = os.Remove(l.path()) // a note without a lock misleads nobody
	_ = l.file.Unlock()     // closing a file that was only locked loses nothing
}

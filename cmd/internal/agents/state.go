package agents

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2/maybe"

	"debrief/events"
	"debrief/events/redact"
)

// StateDir returns the directory for the state of hooks: sessions, runs that wait to be handed over, and the log.
func StateDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "debrief", "agents"), nil
}

// state is the directory of StateDir.
type state string

const sessionAge = 30 * 24 * time.Hour // how long the state of an idle session stays

// session is what hooks remember of a session between two events. It has no text of the conversation but the last message of the user.
type session struct {
	GitDir     string   `json:"git_dir"`
	ShownLines []string `json:"shown,omitempty"` // bullets and reflections that the conversation has; see lineKey
	TurnNumber int      `json:"turn,omitempty"`  // number of the last message of the user, from 1
	Run        *run     `json:"run,omitempty"`   // the work on that message
	AdviceDue  bool     `json:"due,omitempty"`   // the message gets its advice with the first tool call
}

// run is the work of an agent on one message of the user.
type run struct {
	ID         string            `json:"id"` // of the report
	ContextID  events.ID         `json:"context_id,omitempty"`
	Prompt     string            `json:"prompt"`
	Answer     string            `json:"answer,omitempty"`
	Started    time.Time         `json:"started"`
	Calls      []events.ToolCall `json:"calls,omitempty"`       // of an agent without transcripts
	HandedOver bool              `json:"handed_over,omitempty"` // waits in the spool, or was reported
}

// sessionFile returns the file of a session without its suffix. The name of a session is text of the agent, so it is hashed.
func (s state) sessionFile(agent, name string) string {
	sum := sha256.Sum256([]byte(agent + "\x00" + name))
	return filepath.Join(string(s), "sessions", hex.EncodeToString(sum[:12]))
}

// lock waits until no other process has locked a file, or until ctx ends. A hook locks its session. The modification time of the lock file
// is that of the last lock, so that removeOld keeps the lock files in use.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	l := flock.New(file+".lock", flock.SetPermissions(0o600))
	if ok, err := l.TryLockContext(ctx, 3*time.Millisecond); err != nil || !ok {
		return nil, fmt.Errorf("lock %s: %w", file, cmp.Or(err, errors.New("in use")))
	}
	now := time.Now()
	_ = os.Chtimes(l.Path(), now, now)
	return func() { _ = l.Unlock() }, nil
}

// ReadJSON reads a file. It returns false if the file does not exist.
func ReadJSON(file string, v any) (bool, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(data, v)
}

// WriteJSON replaces a file that only the user can read. A reader sees the old or the new content.
func WriteJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(file, append(data, '\n'), 0o600)
}

// WriteFile replaces a file, and creates its directory. A reader sees the old or the new content.
func WriteFile(file string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return maybe.WriteFile(file, data, mode)
}

const maxLog = 1 << 20 // size of the log, in bytes, at which it is renamed to hook.log.1 and a new log begins

// log appends an error to the log file: a hook has no other place for it, because the agent reads its output. Secrets are replaced.
func (s state) log(err error) {
	file := filepath.Join(string(s), "hook.log")
	if info, statErr := os.Stat(file); statErr == nil && info.Size() > maxLog {
		_ = os.Rename(file, file+".1")
	}
	if os.MkdirAll(string(s), 0o700) != nil {
		return
	}
	f, openErr := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if openErr != nil {
		return
	}
	defer f.Close()
	_, _ = fmt.Fprintf(f, "%s %s\n", time.Now().UTC().Format(time.RFC3339), redact.Text(err.Error()))
}

// removeOld removes the state and the lock files of sessions that are idle for sessionAge.
func (s state) removeOld(now time.Time) {
	dir := filepath.Join(string(s), "sessions")
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil && now.Sub(info.ModTime()) > sessionAge {
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

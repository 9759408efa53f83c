package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	manifestName  = "manifest.json"
	formatName    = "debrief-backup"
	formatVersion = 2
)

// Manifest is the file manifest.json of a backup.
type Manifest struct {
	Format    string            `json:"format"` // debrief-backup
	Version   int               `json:"version"`
	Created   time.Time         `json:"created"`
	Duration  time.Duration     `json:"duration_ns"`
	Program   string            `json:"program"`   // version of debrief that created the backup
	Server    string            `json:"server"`    // version of the server that made the snapshots; an older one may not read them
	Positions map[string]uint64 `json:"positions"` // by role: everything up to it was acknowledged before the first snapshot
	Streams   []Stream          `json:"streams"`   // in the order of their snapshots

	dir string // directory of the backup
}

// Stream is one stream of a backup.
type Stream struct {
	Name     string            `json:"name"`
	Messages uint64            `json:"messages"`
	First    uint64            `json:"first_seq"`
	Last     uint64            `json:"last_seq"`
	Removed  uint64            `json:"removed,omitempty"` // messages removed during the snapshot, which may be missing in it
	Replicas int               `json:"replicas"`
	Size     int64             `json:"size"`   // bytes of the files
	Files    map[string]string `json:"sha256"` // hexadecimal, by file name

	dir string // of another backup that the stream is from (UseErasures), else empty
}

// Dir is the directory of a new backup. It has a temporary name beside its own until Create has completed it.
type Dir struct {
	Name string
	tmp  string
}

// NewDir creates the directory of a backup. If a directory of this name exists and is no backup, the new one is created in it, with a name
// made of the time now. NewDir returns an error that wraps fs.ErrExist if the backup already exists. The caller must close the Dir.
func NewDir(name string, now time.Time) (*Dir, error) {
	_, err := os.Lstat(filepath.Join(name, manifestName))
	isBackup := err == nil
	if info, err := os.Stat(name); err == nil && info.IsDir() && !isBackup {
		name = filepath.Join(name, "debrief-"+now.UTC().Format("20060102T150405Z"))
	}
	if _, err := os.Lstat(name); err == nil {
		return nil, fmt.Errorf("%s: %w: choose another directory", name, fs.ErrExist)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(name), ".debrief-backup-*") // for its owner only, because of the contents of the streams
	if err != nil {
		return nil, fmt.Errorf("create a directory in %s: %w", filepath.Dir(name), err)
	}
	return &Dir{Name: name, tmp: tmp}, nil
}

// publish adds the manifest, flushes all files and gives the directory its name.
func (d *Dir) publish(m *Manifest) error {
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.tmp, manifestName), data, 0o600); err != nil {
		return err
	}
	err = filepath.WalkDir(d.tmp, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Chmod(0o600), f.Sync(), f.Close())
	})
	if err != nil {
		return err
	}
	return os.Rename(d.tmp, d.Name)
}

// Close removes a directory that Create has not completed.
func (d *Dir) Close() {
	_ = os.RemoveAll(d.tmp) // after Create, nothing has this name
}

// InvalidError is returned for a directory that is not a backup, or that was changed since it was written. Nothing was
// restored.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "invalid backup: " + e.Reason }

func invalid(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// Verify reads all files of a backup and returns its manifest, or an *InvalidError. The backup may come from an untrusted source:
// all names that lead to a file are compared with those of this program.
func Verify(dir string) (*Manifest, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, invalid("not written by 'debrief backup create', or incomplete: %v", err)
	}
	m := &Manifest{dir: dir}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, invalid("%s: %v", manifestName, err)
	}
	if m.Format != formatName {
		return nil, invalid("%s: not written by 'debrief backup create'", manifestName)
	}
	if m.Version != formatVersion {
		return nil, invalid("%s: format %d, this program supports %d", manifestName, m.Version, formatVersion)
	}
	seen := map[string]bool{}
	for _, s := range m.Streams {
		if !slices.Contains(Streams(), s.Name) || seen[s.Name] {
			return nil, invalid("%s: stream %.60q: unknown or duplicate", manifestName, s.Name)
		}
		seen[s.Name] = true
		if err := s.verify(filepath.Join(dir, s.Name)); err != nil {
			return nil, err
		}
	}
	_, err = m.configs(1)
	return m, err
}

// verify compares the files of a stream with the manifest.
func (s *Stream) verify(dir string) error {
	found, _, err := hashFiles(dir)
	if err != nil {
		return invalid("%v", err)
	}
	for name, sum := range s.Files {
		if got, ok := found[name]; !ok {
			return invalid("%s/%.60s: missing", s.Name, name)
		} else if got != sum {
			return invalid("%s/%s: hash differs from the manifest", s.Name, name)
		}
	}
	for name := range found {
		if _, ok := s.Files[name]; !ok {
			return invalid("%s/%s: not in the manifest", s.Name, name)
		}
	}
	return nil
}

// hashFiles returns the SHA-256 of each file in a directory, and the sum of their sizes. Links are errors: one of an untrusted backup can lead
// to a device without an end.
func hashFiles(dir string) (files map[string]string, size int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	files = map[string]string{}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if !entry.Type().IsRegular() {
			return nil, 0, fmt.Errorf("%s: not a regular file", name)
		}
		sum := sha256.New()
		n, err := copyFile(sum, name)
		if err != nil {
			return nil, 0, err
		}
		size += n
		files[entry.Name()] = hex.EncodeToString(sum.Sum(nil))
	}
	return files, size, nil
}

func copyFile(w io.Writer, name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(w, f)
}

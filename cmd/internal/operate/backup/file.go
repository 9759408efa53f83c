package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"debrief/events/bus"
)

// File is a new backup file. It has a temporary name in the same directory until Write has verified it.
type File struct {
	Name string
	tmp  *os.File
}

// NewFile creates a backup file with the name to. If to is a directory, the file is created in it, with a name made of the time now.
// NewFile returns an error that wraps fs.ErrExist if the file already exists. The caller must close the file.
func NewFile(to string, now time.Time) (*File, error) {
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, "debrief-"+now.UTC().Format("20060102T150405Z")+".tar")
	}
	if _, err := os.Lstat(to); err == nil {
		return nil, existsError{to}
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".debrief-backup-*")
	if err != nil {
		return nil, fmt.Errorf("create a file in %s: %w", filepath.Dir(to), err)
	}
	return &File{to, tmp}, nil
}

// existsError is the error for a file that exists.
type existsError struct{ name string }

func (e existsError) Error() string { return e.name + ": already exists: choose another file" }
func (existsError) Unwrap() error   { return fs.ErrExist }

// Write creates a backup in the file, see Create. It verifies the file and gives it its name.
func (f *File) Write(ctx context.Context, conn *bus.Conn, only []string, program string, tell Progress) (*Summary, error) {
	m, err := Create(ctx, conn, only, program, f.tmp, tell)
	if err != nil {
		return nil, err
	}
	if err := f.publish(); err != nil {
		return nil, err
	}
	return NewSummary(f.Name, m)
}

// publish verifies the contents of the file and gives it its name.
func (f *File) publish() error {
	if _, err := f.tmp.Seek(0, 0); err != nil {
		return err
	}
	if _, err := Verify(f.tmp); err != nil {
		return fmt.Errorf("verify the new backup: %w", err)
	}
	return errors.Join(f.tmp.Sync(), os.Rename(f.tmp.Name(), f.Name))
}

// Close closes the file. It removes a file that Write has not completed.
func (f *File) Close() {
	_ = f.tmp.Close()           // Write has flushed it
	_ = os.Remove(f.tmp.Name()) // fails after the rename, as intended
}

// Summary describes the file of a backup.
type Summary struct {
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	Messages uint64 `json:"messages"`
	*Manifest
}

// NewSummary returns the summary of a file with this manifest.
func NewSummary(file string, m *Manifest) (*Summary, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	return &Summary{File: file, Bytes: info.Size(), Messages: m.Messages(), Manifest: m}, nil
}

package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// File names in a folder. Playbooks are in its subfolder playbooks.
const (
	configFile     = "config.json"
	reportFile     = "report.json"
	pageFile       = "report.html"
	SamplesFile    = "samples.jsonl"
	OperationsFile = "operations.jsonl"
	BulletsFile    = "bullets.jsonl"
	BulletUsesFile = "bullet_uses.jsonl"

	lockFile = ".debrief.lock" // locked, never written
)

// maxConfig limits the size of a config.json that is read, in bytes.
const maxConfig = 4 << 20

// Config is the configuration of a run, stored in config.json before the run starts. Run, Settings and Data identify
// the run of a folder. The versions are those at the start of the run.
type Config struct {
	Format   int       `json:"format"`
	Run      string    `json:"run"`
	Model    string    `json:"model"`
	Debrief  string    `json:"debrief"` // version of the program
	Go       string    `json:"go"`      // Go version and platform of the build
	Settings []Setting `json:"settings"`
	Data     []Data    `json:"data"`
}

// FolderInUseError is returned when a folder contains other files than the artefacts of this run.
type FolderInUseError struct {
	Dir      string
	Contents string
}

func (e *FolderInUseError) Error() string {
	return fmt.Sprintf("folder %s contains %s: choose another folder, or an empty one", e.Dir, e.Contents)
}

// Folder contains the artefacts of one run. Every file is written to a temporary file, synced and renamed. A full
// disk or a crash therefore leaves the earlier file or the complete new one.
type Folder struct {
	dir  string
	root *os.Root
	lock *flock.Flock
}

// Open creates the folder of a run, or reopens it for the same run. It locks the folder until Close. It returns a
// *FolderInUseError, and changes nothing, if the folder contains anything else.
func Open(dir string, c Config) (*Folder, error) {
	c.Format, c.Settings, c.Data = Format, list(c.Settings), list(c.Data)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create folder %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", dir, err)
	}
	f := &Folder{dir: dir, root: root, lock: flock.New(filepath.Join(dir, lockFile))}
	if err := f.claim(c); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Folder) claim(c Config) error {
	// Checked before locking, so that a folder of another run gets no lock file, and again after locking, to exclude
	// races.
	if _, err := f.belongsTo(c); err != nil {
		return err
	}
	switch ok, err := f.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("lock folder %s: %w", f.dir, err)
	case !ok:
		return &FolderInUseError{f.dir, "files that another process is writing"}
	}
	begun, err := f.belongsTo(c)
	if err != nil || begun {
		return err
	}
	data, err := marshal(c)
	if err != nil {
		return fmt.Errorf("encode %s: %w", configFile, err)
	}
	return f.WriteFile(configFile, data)
}

// belongsTo reports whether the folder contains this run. It returns false for an empty folder.
func (f *Folder) belongsTo(c Config) (begun bool, err error) {
	in, err := f.root.Open(configFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, f.checkEmpty()
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", f.path(configFile), err)
	}
	defer in.Close()
	var stored Config
	if err := json.NewDecoder(io.LimitReader(in, maxConfig)).Decode(&stored); err != nil || stored.Run == "" {
		return false, &FolderInUseError{f.dir, "a " + configFile + " that is not from a run"}
	}
	if stored.Run != c.Run {
		return false, &FolderInUseError{f.dir, fmt.Sprintf("run %q", stored.Run)}
	}
	if what := settingsDiff(stored.Settings, c.Settings); what != "" {
		return false, &FolderInUseError{f.dir, fmt.Sprintf("run %q with other settings (%s)", stored.Run, what)}
	}
	if !slices.Equal(stored.Data, c.Data) {
		return false, &FolderInUseError{f.dir, fmt.Sprintf("run %q with other data", stored.Run)}
	}
	return true, nil
}

// checkEmpty returns an error if the folder contains files. It ignores hidden files: a lock, a temporary file of a
// crash, and files of file managers.
func (f *Folder) checkEmpty() error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("read folder %s: %w", f.dir, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			return &FolderInUseError{f.dir, fmt.Sprintf("%q but no %s of a run", e.Name(), configFile)}
		}
	}
	return nil
}

// settingsDiff describes the first difference of settings, "" if there is none.
func settingsDiff(had, want []Setting) string {
	if slices.Equal(had, want) {
		return ""
	}
	for _, h := range had {
		i := slices.IndexFunc(want, func(w Setting) bool { return w.Name == h.Name })
		if i < 0 {
			return fmt.Sprintf("%s is %q there and not set here", h.Name, h.Value)
		}
		if want[i] != h {
			return fmt.Sprintf("%s is %q there and %q here", h.Name, h.Value, want[i].Value)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(had, func(h Setting) bool { return w.Name == h.Name }) {
			return fmt.Sprintf("%s is %q here and not set there", w.Name, w.Value)
		}
	}
	return "another order"
}

// Close unlocks the folder. The written files stay.
func (f *Folder) Close() error { return errors.Join(f.lock.Close(), f.root.Close()) }

func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// WriteFile writes a file. The name is a slash-separated path in the folder; missing directories are created.
func (f *Folder) WriteFile(name string, data []byte) error {
	return f.write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteLines writes a file with one JSON value on each line. If values yields an error, WriteLines returns it and the earlier
// file stays.
func WriteLines[T any](f *Folder, name string, values iter.Seq2[T, error]) error {
	var sourceErr error
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := f.write(name, func(w io.Writer) error {
		n := 0
		for v, err := range values {
			n++
			line.Reset()
			if err == nil {
				err = enc.Encode(v)
			}
			if err != nil {
				sourceErr = fmt.Errorf("write %s: line %d: %w", f.path(name), n, err)
				return sourceErr
			}
			if _, err := w.Write(line.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
	if sourceErr != nil {
		return sourceErr
	}
	return err
}

// WriteReport writes the report as JSON and as a page.
func (f *Folder) WriteReport(r *Report) error {
	data, err := r.json()
	if err != nil {
		return err
	}
	if err := f.WriteFile(reportFile, data); err != nil {
		return err
	}
	return f.write(pageFile, r.page)
}

// write writes a temporary file, syncs it and renames it to its name.
func (f *Folder) write(name string, fill func(io.Writer) error) error {
	dir, base := path.Split(name)
	tmp := dir + "." + base + ".tmp"
	err := f.fill(path.Clean(dir), tmp, fill)
	if err == nil {
		err = f.root.Rename(tmp, name)
	}
	if err != nil {
		_ = f.root.Remove(tmp) // free its space on a full disk
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // the PathError contains the temporary name
		}
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return fmt.Errorf("write %s: %w: the run is stored: free disk space, and run the command again to write the missing files", f.path(name), err)
		}
		return fmt.Errorf("write %s: %w: the run is stored: run the command again to write the missing files", f.path(name), err)
	}
	if d, err := f.root.Open(path.Clean(dir)); err == nil {
		_ = d.Sync() // optional: without it the earlier file may be back after a power loss
		_ = d.Close()
	}
	return nil
}

func (f *Folder) fill(dir, tmp string, fill func(io.Writer) error) (err error) {
	if err := f.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := f.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	w := bufio.NewWriterSize(out, 64<<10)
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Sync()
}

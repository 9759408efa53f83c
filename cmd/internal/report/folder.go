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

// The names of what a folder holds; playbooks are under PlaybooksDir.
const (
	ConfigFile     = "config.json"
	ReportFile     = "report.json"
	PageFile       = "report.html"
	SamplesFile    = "samples.jsonl"
	OperationsFile = "operations.jsonl"
	BulletsFile    = "bullets.jsonl"
	PlaybooksDir   = "playbooks"

	lockFile = ".debrief.lock" // held, never written
)

// maxConfig bounds a config.json that is read, in bytes.
const maxConfig = 4 << 20

// Config is what a run was asked to do, as it stands in config.json before anything has come of it. Run, Settings and
// Data say whose a folder is; the versions are those that the run began with.
type Config struct {
	Format   int       `json:"format"`
	Run      string    `json:"run"`
	Model    string    `json:"model"`
	Debrief  string    `json:"debrief"` // version of the program
	Go       string    `json:"go"`      // that built it, and what for
	Settings []Setting `json:"settings"`
	Data     []Data    `json:"data"`
}

// TakenError is returned when a folder holds something else than the artefacts of this run.
type TakenError struct {
	Dir string
	Has string
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("folder %s holds %s: name another folder, or an empty one", e.Dir, e.Has)
}

// Folder holds the artefacts of one run. Every file appears whole under its name or not at all: it is written beside it,
// synced and renamed, so that a full disk or a kill costs neither half a file nor the earlier one.
type Folder struct {
	dir  string
	root *os.Root
	lock *flock.Flock
}

// Open makes the folder of a run, or takes up that of the same run again; until Close no other process may. A folder
// that holds anything else is a *TakenError, and stays as it is.
func Open(dir string, c Config) (*Folder, error) {
	c.Format, c.Settings, c.Data = Format, list(c.Settings), list(c.Data)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", dir, err)
	}
	f := &Folder{dir: dir, root: root, lock: flock.New(filepath.Join(dir, lockFile))}
	if err := f.take(c); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Folder) take(c Config) error {
	// Looked at before the lock, so that a folder of somebody else's gets no lock file; and after it, when no one can
	// come in between.
	if _, err := f.ours(c); err != nil {
		return err
	}
	switch ok, err := f.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("lock folder %s: %w", f.dir, err)
	case !ok:
		return &TakenError{f.dir, "what another process is writing"}
	}
	begun, err := f.ours(c)
	if err != nil || begun {
		return err
	}
	data, err := marshal(c)
	if err != nil {
		return fmt.Errorf("encode %s: %w", ConfigFile, err)
	}
	return f.Put(ConfigFile, data)
}

// ours reports whether the folder has been begun by this run; it is not when it is empty.
func (f *Folder) ours(c Config) (begun bool, err error) {
	in, err := f.root.Open(ConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, f.empty()
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", f.path(ConfigFile), err)
	}
	defer in.Close()
	var has Config
	if err := json.NewDecoder(io.LimitReader(in, maxConfig)).Decode(&has); err != nil || has.Run == "" {
		return false, &TakenError{f.dir, "a " + ConfigFile + " of something else"}
	}
	if has.Run != c.Run {
		return false, &TakenError{f.dir, fmt.Sprintf("run %q", has.Run)}
	}
	if what := differs(has.Settings, c.Settings); what != "" {
		return false, &TakenError{f.dir, fmt.Sprintf("run %q with other settings (%s)", has.Run, what)}
	}
	if !slices.Equal(has.Data, c.Data) {
		return false, &TakenError{f.dir, fmt.Sprintf("run %q over other data", has.Run)}
	}
	return true, nil
}

// empty allows hidden files: a lock, what a kill left of a file, and what file managers leave.
func (f *Folder) empty() error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("read folder %s: %w", f.dir, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			return &TakenError{f.dir, fmt.Sprintf("%q and no %s of a run", e.Name(), ConfigFile)}
		}
	}
	return nil
}

// differs says what is set otherwise, "" if nothing is.
func differs(had, want []Setting) string {
	if slices.Equal(had, want) {
		return ""
	}
	for _, h := range had {
		i := slices.IndexFunc(want, func(w Setting) bool { return w.Name == h.Name })
		if i < 0 {
			return fmt.Sprintf("there %s is %q, here it is not set", h.Name, h.Value)
		}
		if want[i] != h {
			return fmt.Sprintf("there %s is %q, here %q", h.Name, h.Value, want[i].Value)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(had, func(h Setting) bool { return w.Name == h.Name }) {
			return fmt.Sprintf("here %s is %q, there it is not set", w.Name, w.Value)
		}
	}
	return "in another order"
}

// Close lets the next one in. What is written stays.
func (f *Folder) Close() error { return errors.Join(f.lock.Close(), f.root.Close()) }

// Path is where the folder is, as it was named.
func (f *Folder) Path() string { return f.dir }

func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Put writes a file whole. The name is a slash-separated path within the folder; what it lacks of folders is made.
func (f *Folder) Put(name string, data []byte) error {
	return f.write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Lines writes a file of one JSON value a line, as they come; an error among them ends it, and the file stays as it was.
func Lines[T any](f *Folder, name string, values iter.Seq2[T, error]) error {
	var source error
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
				source = fmt.Errorf("write %s: line %d: %w", f.path(name), n, err)
				return source
			}
			if _, err := w.Write(line.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
	if source != nil {
		return source
	}
	return err
}

// Report writes the report, for programs and for people.
func (f *Folder) Report(r *Report) error {
	data, err := r.JSON()
	if err != nil {
		return err
	}
	if err := f.Put(ReportFile, data); err != nil {
		return err
	}
	return f.write(PageFile, r.Page)
}

// write has a file written beside its name, and gives it the name when all of it is on the disk.
func (f *Folder) write(name string, fill func(io.Writer) error) error {
	dir, base := path.Split(name)
	tmp := dir + "." + base + ".tmp"
	err := f.fill(path.Clean(dir), tmp, fill)
	if err == nil {
		err = f.root.Rename(tmp, name)
	}
	if err != nil {
		_ = f.root.Remove(tmp) // what it takes is what a full disk lacks
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // it names the temporary file
		}
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return fmt.Errorf("write %s: %w: the run itself is stored: make room, and repeat the command to write what is missing", f.path(name), err)
		}
		return fmt.Errorf("write %s: %w: the run itself is stored: repeat the command to write what is missing", f.path(name), err)
	}
	if d, err := f.root.Open(path.Clean(dir)); err == nil {
		_ = d.Sync() // not every system can; without it a power cut may bring the earlier file back, whole
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

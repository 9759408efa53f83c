package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
)

// maxConfig limits the size of a config.json that is read, in bytes.
const maxConfig = 4 << 20

// Config is the configuration of a run, stored in config.json before the run starts. A folder belongs to the run with the same Run,
// Settings and Data. Debrief and Go are the versions at the start of the run.
type Config struct {
	Format   int       `json:"format"`
	Run      string    `json:"run"`
	Model    string    `json:"model"`
	Debrief  string    `json:"debrief"` // version of the program
	Go       string    `json:"go"`      // Go version and platform of the build
	Settings []Setting `json:"settings"`
	Data     []Data    `json:"data"`
}

// Differences lists the differences between a stored run and another one, as sentences. Of different data it lists no details.
func Differences(storedSettings, settings []Setting, storedData, data []Data) (all []string) {
	there, here := valuesOf(storedSettings), valuesOf(settings)
	names := slices.AppendSeq(slices.Collect(maps.Keys(there)), maps.Keys(here))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if there[name] != here[name] {
			all = append(all, fmt.Sprintf("%s: %s there, %s here", name, cmp.Or(there[name], "nothing"), cmp.Or(here[name], "nothing")))
		}
	}
	if !slices.Equal(storedData, data) {
		all = append(all, "other data")
	}
	return all
}

// valuesOf returns the values of settings by name. The values of a setting that is given several times are joined by commas.
func valuesOf(settings []Setting) map[string]string {
	values := map[string]string{}
	for _, s := range settings {
		if earlier, ok := values[s.Name]; ok {
			s.Value = earlier + ", " + s.Value
		}
		values[s.Name] = s.Value
	}
	return values
}

// FolderInUseError is returned when a folder contains other files than those of this run.
type FolderInUseError struct {
	Dir      string
	Contents string // what the folder contains, in words
}

func (e *FolderInUseError) Error() string {
	return fmt.Sprintf("folder %s contains %s: choose another folder, or an empty one", e.Dir, e.Contents)
}

// Folder is the folder with the files of one run. Each file is written to a temporary file, synced and renamed. So a full disk or a crash leaves
// the earlier file or the complete new one.
type Folder struct {
	dir  string
	root *os.Root
}

// Open creates the folder of a run, or reopens it for the same run. It returns a *FolderInUseError, and changes nothing, if the folder
// contains anything else. Only the owner of a run writes its folder, see package replay.
func Open(dir string, c Config) (*Folder, error) {
	c.Format = Format
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create folder %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", dir, err)
	}
	f := &Folder{dir: dir, root: root}
	if err := f.claim(c); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// claim stores the configuration of a run in an empty folder. It changes nothing if the folder belongs to the run already.
func (f *Folder) claim(c Config) error {
	belongs, err := f.belongsTo(c)
	if err != nil || belongs {
		return err
	}
	data, err := marshal(c)
	if err != nil {
		return fmt.Errorf("encode %s: %w", configFile, err)
	}
	return f.WriteFile(configFile, data)
}

// belongsTo reports whether the folder belongs to a run. It returns false for an empty folder, and an error for one with other contents.
func (f *Folder) belongsTo(c Config) (bool, error) {
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
	if other := Differences(stored.Settings, c.Settings, stored.Data, c.Data); len(other) > 0 {
		return false, &FolderInUseError{f.dir, fmt.Sprintf("run %q with other settings or data (%s)", stored.Run, strings.Join(other, "; "))}
	}
	return true, nil
}

// checkEmpty returns an error if the folder contains files. It ignores hidden files: a temporary file of a crash, and files of file
// managers.
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

// Close closes the folder. The written files stay.
func (f *Folder) Close() error { return f.root.Close() }

func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// WriteFile writes a file. The name is a slash-separated path in the folder; missing directories are created.
func (f *Folder) WriteFile(name string, data []byte) error {
	return f.write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteLines writes a file with one JSON value on each line. After an error the earlier file stays.
func WriteLines[T any](f *Folder, name string, values iter.Seq[T]) error {
	return f.write(name, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		for v := range values {
			if err := enc.Encode(v); err != nil {
				return err
			}
		}
		return nil
	})
}

// WriteReport writes the report as JSON, and as a page with the function page.
func (f *Folder) WriteReport(r *Report, page func(io.Writer, *Report) error) error {
	data, err := marshal(r)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := f.WriteFile(reportFile, data); err != nil {
		return err
	}
	return f.write(pageFile, func(w io.Writer) error { return page(w, r) })
}

// marshal encodes indented JSON without HTML escapes.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// write writes a file with the output of a function. It writes a temporary file, and renames it to name.
func (f *Folder) write(name string, output func(io.Writer) error) error {
	dir, base := path.Split(name)
	tmp := dir + "." + base + ".tmp"
	err := f.fill(path.Clean(dir), tmp, output)
	if err == nil {
		err = f.root.Rename(tmp, name)
	}
	if err != nil {
		_ = f.root.Remove(tmp) // free its space on a full disk
		err = withoutName(err) // it is the temporary name
		advice := "run the command again"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			advice = "free disk space, and " + advice
		}
		return fmt.Errorf("write %s: %w: %s", f.path(name), err, advice)
	}
	if d, err := f.root.Open(path.Clean(dir)); err == nil {
		_ = d.Sync() // optional: without it the earlier file may be back after a power loss
		_ = d.Close()
	}
	return nil
}

// withoutName returns an error of the file system without the name of the file, or another error unchanged.
func withoutName(err error) error {
	if ofPath, ok := errors.AsType[*fs.PathError](err); ok {
		return ofPath.Err
	}
	if ofRename, ok := errors.AsType[*os.LinkError](err); ok {
		return ofRename.Err
	}
	return err
}

// fill creates the file tmp in the directory dir with the output of a function, and syncs it.
func (f *Folder) fill(dir, tmp string, output func(io.Writer) error) (err error) {
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
	if err := output(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Sync()
}

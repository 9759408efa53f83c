package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"debrief/cmd/internal/console"
	"debrief/cmd/internal/traces"
)

// standardInput is the name of standard input among the files.
const standardInput = "-"

// expandFiles replaces each directory by the files in it and in its subdirectories, in alphabetical order. Hidden files, and
// entries that are neither regular files nor links to regular files, are left out: a link to a directory may lead in a circle, and
// a pipe may never end. It also returns the number of such entries. A missing file is an error, because the name is probably
// misspelled.
func expandFiles(names []string) (files []string, others int, err error) {
	for _, name := range names {
		if name == standardInput {
			files = append(files, name)
			continue
		}
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, 0, fmt.Errorf("%s: no such file", name)
		case err != nil:
			return nil, 0, err
		case !info.IsDir():
			files = append(files, name)
			continue
		}
		inside, no, err := filesIn(name)
		if err != nil {
			return nil, 0, err
		}
		if len(inside) == 0 {
			return nil, 0, fmt.Errorf("%s: the directory has no files", name)
		}
		files = append(files, inside...)
		others += no
	}
	return files, others, nil
}

// filesIn returns the files in a directory and its subdirectories, and the number of other entries. An unreadable subdirectory is
// an error.
func filesIn(dir string) (files []string, others int, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && path != dir
		switch {
		case entry.IsDir() && hidden:
			return filepath.SkipDir
		case entry.IsDir() || hidden:
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		} else {
			others++
		}
		return nil
	})
	return files, others, err
}

// openFile opens a file or standard input. It does not wait for the writer of a named pipe: without one, the pipe is empty.
func openFile(name string) (*os.File, error) {
	if name == standardInput {
		return os.Stdin, nil
	}
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// interruptible returns a reader of f that ends with the context. A read of a pipe or of a terminal may wait for ever.
func interruptible(ctx context.Context, f *os.File) io.Reader {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return f
	}
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(w, f)
		w.CloseWithError(err)
	}()
	return r
}

// readOutcomes reads the file of --outcomes, or returns nil without one.
func (l *Learn) readOutcomes(ctx context.Context) (*traces.Outcomes, error) {
	if l.Outcomes == "" {
		return nil, nil
	}
	f, err := os.Open(l.Outcomes)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return traces.ReadOutcomes(ctx, l.Outcomes, f)
}

// checkOutcomes adds notes on outcomes that were not used.
func (l *Learn) checkOutcomes(o *traces.Outcomes, res *learnResult) {
	if o == nil {
		return
	}
	note := fmt.Sprintf("%s: %s received an outcome", l.Outcomes, console.Plural(o.Applied, "run"))
	if o.Kept > 0 {
		note += fmt.Sprintf(", %d kept the recorded one", o.Kept)
	}
	if n, first := o.Unused(); n > 0 {
		note += fmt.Sprintf(", %s no run (%s)", pluralOf(n, "id matches", "ids match"), strings.Join(first, ", "))
		if o.Applied+o.Kept == 0 && len(o.Examples) > 0 {
			note += fmt.Sprintf("; ids of runs look like %s", strings.Join(o.Examples, ", "))
		}
	}
	res.Notes = append(res.Notes, note+".")
	if o.Applied > 0 && res.Known > 0 {
		res.Notes = append(res.Notes, "Runs that were stored before keep their outcome: change it with 'debrief feedback'.")
	}
}

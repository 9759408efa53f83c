package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/runs"
	"debrief/events"
)

// standardInput is the name of standard input among the files.
const standardInput = "-"

// expandFiles replaces each directory by the files in it and in its subdirectories, in alphabetical order, without hidden ones. A
// directory of events stays in the list in place of its files; see groupEvents. A missing file is an error, because the name is probably
// misspelled.
//
// It also returns the skipped entries: files and directories with an error, and the entries of a directory that are pipes, links to
// directories and the like. Such a link may lead in a circle, and a pipe may never end.
func expandFiles(names []string) (files []string, skipped []unreadItem, err error) {
	for _, name := range names {
		if name == standardInput {
			files = append(files, name)
			continue
		}
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil, fmt.Errorf("%s: no such file", name)
		case err != nil:
			skipped = append(skipped, unreadItem{File: name, Problem: reasonOf(err)})
		case info.IsDir():
			inside, unread := filesIn(name)
			if len(inside)+len(unread) == 0 {
				return nil, nil, fmt.Errorf("%s: the directory has no files", name)
			}
			files = append(files, inside...)
			skipped = append(skipped, unread...)
		default:
			files = append(files, name)
		}
	}
	if len(files) == 0 && len(skipped) > 0 {
		return nil, nil, fmt.Errorf("no file can be read: %s: %s", skipped[0].File, skipped[0].Problem)
	}
	return groupEvents(files), skipped, nil
}

// filesIn returns the files in a directory and its subdirectories, and the skipped entries.
func filesIn(dir string) (files []string, skipped []unreadItem) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		hidden := entry != nil && strings.HasPrefix(entry.Name(), ".") && path != dir
		switch {
		case hidden && entry.IsDir():
			return filepath.SkipDir
		case hidden:
			return nil
		case err == nil && entry.IsDir():
			return nil
		}
		var info fs.FileInfo
		if err == nil {
			info, err = os.Stat(path)
		}
		switch {
		case err != nil:
			skipped = append(skipped, unreadItem{File: path, Problem: reasonOf(err)})
		case info.Mode().IsRegular():
			files = append(files, path)
		default:
			skipped = append(skipped, unreadItem{File: path, Problem: "not read: " + describeMode(info.Mode()), noFile: true})
		}
		return nil
	})
	return files, skipped
}

// describeMode describes an entry that is not a regular file.
func describeMode(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a link to a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// readFiles publishes the runs of the files, and counts them. It returns an error if it can read no run of them.
func (l *Learn) readFiles(ctx context.Context, s *cli.Session, r *runs.Reader, files []string, states runStates, res *learnResult) error {
	for _, name := range files {
		err := l.readFile(ctx, s, r, name, states, res)
		if errors.As(err, new(*stopError)) || ctx.Err() != nil {
			return err
		}
		if err == nil {
			continue
		}
		res.BadFiles++
		bad := unreadItem{File: name, Problem: reasonOf(err)}
		hasRuns := states.count(runInFiles) > 0 || len(l.postponed.runs) > 0
		nothingRead := len(files) == 1 && !hasRuns
		if l.JSON || !nothingRead { // without JSON, the error of the command is enough
			l.skip(bad, res)
		}
		if nothingRead {
			return fmt.Errorf("%s: %s", name, bad.Problem)
		}
	}
	if err := l.publishPostponed(ctx, s, states, res); err != nil {
		return err
	}
	res.Executions, res.Stored = states.count(runInFiles), states.count(runStored)
	if res.BadFiles > 0 && res.Executions == 0 {
		return fmt.Errorf("no run was read: %s; see above", res.losses())
	}
	return nil
}

// stopError is an error of the server while it stores runs. It ends the command; the next one continues with the runs that are not stored.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// readFile publishes the runs of a file. Its error is a *stopError, or the reason why the rest of the file was not read.
func (l *Learn) readFile(ctx context.Context, s *cli.Session, r *runs.Reader, name string, states runStates, res *learnResult) error {
	f, err := openFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	p := l.newProgressReader(ctx, name, f)
	pub := l.newPublisher(ctx, s, states, res)
	report, err := r.Read(ctx, baseName(name), p, func(e *events.Execution) error {
		p.runs++
		if l.postponed.add(name, e) {
			return nil
		}
		return pub.publish(ctx, e)
	})
	p.clear()
	if serverErr := pub.wait(); serverErr != nil {
		return &stopError{serverErr}
	}
	report.Runs -= len(pub.invalid)
	res.calls += pub.calls
	if err == nil || report.Runs > 0 {
		l.printFile(name, report, res)
	}
	for _, problem := range slices.Sorted(maps.Values(pub.invalid)) {
		res.Unread++
		l.skip(unreadItem{File: name, Problem: problem}, res)
	}
	return err
}

// publishPostponed publishes the postponed runs of all files. Its error is one of the server.
func (l *Learn) publishPostponed(ctx context.Context, s *cli.Session, states runStates, res *learnResult) error {
	pub, postponed := l.newPublisher(ctx, s, states, res), l.postponed.runs
	l.postponed = postponedRuns{}
	for _, p := range postponed {
		if err := pub.publish(ctx, p.run); err != nil {
			break // wait returns the reason
		}
	}
	if err := pub.wait(); err != nil {
		return err
	}
	res.calls += pub.calls
	for _, p := range postponed {
		key := runIDOf(p.run.ID)
		if problem, ok := pub.invalid[key]; ok {
			res.Unread++
			l.skip(unreadItem{File: p.file, Problem: problem}, res)
			delete(pub.invalid, key) // a copy of the run may follow
		}
	}
	return nil
}

// openFile opens a file or standard input. It does not wait for the writer of a named pipe: without one, the pipe is empty.
func openFile(name string) (*os.File, error) {
	if name == standardInput {
		return os.Stdin, nil
	}
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// interruptible returns a reader of f that ends with the context, because a read of a pipe or of a terminal may wait for ever. Of a
// regular file it reads the bytes that the file has now: a file that grows may have no end, for example if it is the output of this
// command. The reader of a directory returns its events, see newEventReader.
func interruptible(ctx context.Context, f *os.File) io.Reader {
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return newEventReader(f.Name())
	}
	if err == nil && info.Mode().IsRegular() {
		at, _ := f.Seek(0, io.SeekCurrent) // standard input may be in the middle of a file
		if n := info.Size() - at; n > 0 {
			return io.LimitReader(f, n)
		}
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

// newProgressLine returns a line for the progress of the command, with --json for JSON lines.
func (l *Learn) newProgressLine() *progressLine {
	p := newProgressLine(term.Stderr)
	if l.JSON {
		p.json = term.Stdout
	}
	return p
}

// progressReader reads a file and reports its progress.
type progressReader struct {
	*progressLine
	io.Reader
	name       string
	read, size int64 // bytes; size is 0 if unknown
	runs       int   // read so far; the caller counts them
}

func (l *Learn) newProgressReader(ctx context.Context, name string, f *os.File) *progressReader {
	p := &progressReader{progressLine: l.newProgressLine(), Reader: interruptible(ctx, f), name: name}
	if info, err := f.Stat(); err == nil {
		p.size = info.Size()
	}
	return p
}

// Read implements io.Reader.
func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.read += int64(n)
	p.report(func(seconds float64) (any, string) {
		rate, runs := float64(p.read)/seconds, float64(p.runs)/seconds
		values := map[string]any{
			"file": p.name, "bytes": p.read, "of": p.size, "runs_so_far": p.runs, "bytes_per_second": int64(rate), "runs_per_second": int64(runs),
		}
		return values, fmt.Sprintf("%s: %d of %d MB, %d runs; %.1f MB and %.0f runs a second",
			p.name, p.read>>20, p.size>>20, p.runs, rate/(1<<20), runs)
	})
	return n, err
}

// readOutcomes reads the file of --outcomes. It returns nil without one. leading is the name of the score that decides the outcome.
func (l *Learn) readOutcomes(ctx context.Context, leading string) (*runs.Outcomes, error) {
	if l.Outcomes == "" {
		return nil, nil
	}
	f, err := os.Open(l.Outcomes)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return runs.ReadOutcomes(ctx, l.Outcomes, f, leading)
}

// checkOutcomes adds notes on outcomes that were not used.
func (l *Learn) checkOutcomes(o *runs.Outcomes, res *learnResult) {
	if o == nil {
		return
	}
	note := fmt.Sprintf("%s: %s received an outcome", l.Outcomes, term.Plural(o.Applied, "run"))
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
	if o.Applied > 0 && res.Stored > 0 {
		res.Notes = append(res.Notes, "Runs that were stored before keep their outcome: change it with 'debrief feedback'.")
	}
}

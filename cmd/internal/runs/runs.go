package runs

import (
	"context"
	"io"

	"debrief/cmd/internal/runs/source"
	"debrief/events"
	"debrief/playbook"
)

// SourceFile is the first part of the source of each recorded run. The format follows, as in "file/codex". No content of a file changes
// the first part, so a person who trusts the source "file" trusts all files.
const SourceFile = "file"

// Limits of Read.
const (
	// maxRun is the maximum size of the JSON of one run, and of one line, in bytes. Larger ones are skipped and reported.
	maxRun = 16 << 20
	// maxOpen is the maximum number of unfinished runs whose lines are interleaved in a file. If there is one more, or if
	// the unfinished runs hold more than 1.5 × maxRun bytes, the run without a line for longest is ended.
	maxOpen = 64
	// maxProblems is the maximum number of problems in a report. The count includes all of them.
	maxProblems = 100
)

// Report summarizes the reading of a file.
type Report struct {
	Source   string // format of the first run or part of a run, for example tau-bench
	Runs     int    // runs for which the callback was called
	Skipped  int    // runs, or lines of runs, that could not be read
	Problems []Problem
	// Invalid counts invalid characters, which are replaced by U+FFFD, and texts that begin like JSON and are not valid, which are read as
	// plain text.
	Invalid int
}

// Problem describes a line or element of a file that was skipped.
type Problem = source.Problem

// Reader reads recorded runs as executions of a playbook. A run that is in several files of the same Reader counts once. A Reader is not
// safe for concurrent use.
type Reader struct {
	Book playbook.Book
	// Outcomes has the outcomes of runs that were recorded without one. Nil has none.
	Outcomes *Outcomes
	// LeadingScore is the name of the score that counts in the playbook if a run has several, "" for none.
	LeadingScore string
	// Known reports whether the execution with an id is stored; nil knows none. If a stored execution is the beginning of a
	// run, only the steps after it are read.
	Known func(events.ID) bool

	seen recordedRuns // the runs read so far, in all files
}

// Read calls fn for each run in the file, in the order in which the runs end. Its memory is bounded for a file of any
// length. The name is the file name; only outcomes of a separate file refer to it. Read reports an unreadable line or
// element as a Problem and continues with the next one. It returns an error after 1 GB without a run, or a million unreadable lines or
// elements in a row. It ends with the first error of fn and wraps it. The report is valid also if Read returns an error.
func (r *Reader) Read(ctx context.Context, name string, in io.Reader, fn func(*events.Execution) error) (Report, error) {
	f := fileReader{Reader: r, base: source.BaseName(name), limit: maxRun, fn: fn}
	err := f.readFile(ctx, in)
	return f.report, err
}

// Read calls Reader.Read without outcomes.
func Read(ctx context.Context, book playbook.Book, name string, in io.Reader, fn func(*events.Execution) error) (Report, error) {
	return (&Reader{Book: book}).Read(ctx, name, in, fn)
}

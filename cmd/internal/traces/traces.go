// Package traces reads recorded runs of other agents as executions, so that a playbook learns from them without running
// the tasks again. It detects the format of each object from its fields, never from the file name. The first format in this
// list that matches is used:
//
//   - tau-bench results: {task_id, trial, reward, info, traj}, traj being OpenAI chat messages;
//   - SWE-agent trajectories (.traj): an object with trajectory[], history[] or both;
//   - Claude Code: the events of 'claude -p --output-format stream-json', and its transcripts. The events with one
//     session_id are a run. A result event ends the run; later events of the session start another run;
//   - OpenClaw sessions: events of type session and message. A session event starts a run;
//   - OpenAI chat: {"messages": […]} as in fine-tuning files, or with request and response as in request logs. If the
//     objects are single messages, the whole file is one run;
//   - Dynamic Cheatsheet results: {input, target, steps, final_answer, …};
//   - executions, as printed by 'debrief submit --wait --json' or written by hand; see below.
//
// A file holds one object per line (JSON Lines), one JSON list, or one object over several lines. In JSON Lines, an
// unreadable line is skipped and reported; for example, the last line is incomplete if the recorder crashed. Other bytes
// before the first brace of a line are skipped and reported too. Events that are not turns of a conversation are ignored.
//
// # Content of an execution
//
// The first message of a user is the question. Each other turn of a user or an assistant is a step. Each tool call has its
// result. If the recorder did not store whether a call failed, the package detects it from the output.
//
// The package leaves out:
//
//   - system prompts and demonstrations: they instruct the recorded agent and are not its actions;
//   - thinking blocks: they quote those instructions;
//   - turns of sub-agents, and text that a harness adds as a user or an assistant;
//   - reference answers that are recorded with a task: they would leak into the playbook. Only the outcome is kept.
//
// The package does not redact, score or publish anything.
//
// # Executions
//
// A line in the execution format needs a question or a task_id, and steps or an answer:
//
//	{"task_id": "berth-7", "question": "A berth for the Tern?", "context": "", "session": "", "answer": "Berth 4",
//	 "steps": [{"speaker": "assistant", "text": "I look.", "tool_calls": [
//	     {"tool": "find_berth", "arguments": "{}", "output": "berth 4", "outcome": "success", "duration_ns": 1000}]}],
//	 "outcome": {"score": 1, "label": "success", "feedback": "", "by": "ann"}}
//
// The outcome can also be a label (success, partial, failure, unknown), a number from 0 to 1, or true or false. The outcome
// of a tool call is success, failure, timeout, error, or empty for success. Lines with the same task_id are attempts at one
// task. The fields purpose, target, reasoning, model, usage, started, duration_ns, origin.source and origin.task are read
// too. The fields on the use of a playbook (shown, cited, manifest, trials) are ignored, because they refer to another
// playbook.
//
// # Task ids
//
// The task id of a run consists of the recorder's name for the run and a hash of its content. So reading a file twice gives
// the same ids, and different runs have different ids, even in files with the same name. Two equal runs have the same id
// and count once. A line in the execution format with an id is an execution of Debrief. It keeps its task id, and so its
// id.
package traces

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of Read.
const (
	// maxRun is the maximum size of the JSON of one run, and of one line, in bytes. Larger ones are skipped and reported.
	maxRun = 16 << 20
	// maxOpen is the maximum number of unfinished runs whose lines are interleaved in a file. If there is one more, or if
	// the unfinished runs hold more than 1.5 × maxRun bytes, the run without a line for longest is ended.
	maxOpen = 64
	// maxOutput is the maximum size of a tool's output in bytes. From a longer one, the beginning and the end are kept.
	maxOutput = 16 << 10
	// maxProblems is the maximum number of problems, and of repairs, in a report. The counts include all of them.
	maxProblems = 100
)

// Report summarizes the reading of a file.
type Report struct {
	Source   string // format of the first run or part of a run, for example tau-bench
	Runs     int    // runs for which the callback was called
	Skipped  int    // runs, or lines of runs, that could not be read
	Repaired int    // lines that were read without the other bytes before the object
	Problems []Problem
	Repairs  []Problem
}

// Problem describes a line or element of a file that was skipped or repaired.
type Problem struct {
	Line   int // line number from 1; 0 in a JSON list
	Index  int // index of the element in a JSON list, from 0
	Reason string
}

// Where returns the position in the file, for example "line 3" or "element 2".
func (p Problem) Where() string {
	if p.Line > 0 {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("element %d", p.Index)
}

func (p Problem) String() string { return p.Where() + ": " + p.Reason }

// Read calls fn for each run in r, in the order in which the runs end in the file. Its memory is bounded for a file of any
// length. The name is the file name; it is used in errors, and in the task ids of tau-bench and SWE-agent. A line or
// element that cannot be read is reported as a Problem, and Read continues with the next one. An error of fn ends Read,
// which wraps it. The report is valid also if Read returns an error.
func Read(ctx context.Context, book playbook.Book, name string, r io.Reader, fn func(*events.Execution) error) (Report, error) {
	f := fileReader{book: book, base: baseName(name), limit: maxRun, fn: fn}
	if err := f.read(ctx, r); err != nil {
		return f.report, fmt.Errorf("read %s: %w", name, err)
	}
	return f.report, nil
}

// fileReader reads one file.
type fileReader struct {
	book      playbook.Book
	base      string // see baseName
	limit     int    // maxRun, or less in tests
	fn        func(*events.Execution) error
	openRuns  []*openRun // in the order of their first parts
	partCount int        // number of parts read so far
	report    Report
}

// position is the position of an object in the file: a Problem without a reason.
type position = Problem

func (f *fileReader) read(ctx context.Context, r io.Reader) error {
	l := newLines(r, f.limit)
	switch first, err := l.peek(); {
	case err == io.EOF:
		return fmt.Errorf("file is empty: %w", ErrFormat)
	case err != nil:
		return err
	case first == '[':
		return f.readList(ctx, &scanner{r: l.r})
	}
	line, err := l.next()
	if err == nil && isPartialObject(line) {
		return f.readObject(ctx, &scanner{r: bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(line)), l.r))})
	}
	return f.readLines(ctx, l, line, err)
}

// readObject reads a file that is one object over several lines.
func (f *fileReader) readObject(ctx context.Context, s *scanner) error {
	raw, err := s.value(f.limit)
	if err != nil {
		return err
	}
	format, _, err := detectFormat(raw)
	switch {
	case err != nil:
	case format == nil:
		err = errors.New("file is a single event of a log")
	case format.parse == nil:
		err = fmt.Errorf("file is a single event of %s over several lines, want one event per line", format.source)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrFormat)
	}
	f.report.Source = format.source
	run, err := format.parse(raw)
	if err != nil {
		return err
	}
	if err := errors.Join(s.end(), ctx.Err()); err != nil {
		return err
	}
	problem, err := f.emit(format, run, digest(raw), position{})
	return errors.Join(problem, err)
}

// readList reads a file that is one JSON list.
func (f *fileReader) readList(ctx context.Context, s *scanner) error {
	s.skip() // the bracket
	for i := 0; ; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := s.hasNext(i == 0)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if !more {
			break
		}
		raw, err := s.value(f.limit)
		if err != nil && !errors.Is(err, errTooLarge) {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if err := f.addObject(raw, err, position{Index: i}); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	if err := f.endAllRuns(); err != nil {
		return err
	}
	if f.report.Runs == 0 && f.report.Skipped == 0 {
		return fmt.Errorf("the list is empty: %w", ErrFormat)
	}
	return errors.Join(f.checkRuns(), s.end())
}

// readLines reads JSON Lines. The arguments line and err are the result of reading the first line.
func (f *fileReader) readLines(ctx context.Context, l *lines, line []byte, err error) error {
	for ; err != io.EOF; line, err = l.next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil && !errors.Is(err, errTooLarge) {
			return err
		}
		if err == nil && len(line) == 0 {
			continue
		}
		at := position{Line: l.n}
		if clean := trimJunk(line); clean != nil {
			junk := line[:len(line)-len(clean)]
			f.addRepair(at, fmt.Sprintf("was read without the %d bytes before its first brace: %.40q", len(junk), junk))
			line = clean
		}
		if err := f.addObject(line, err, at); err != nil {
			return fmt.Errorf("%s: %w", at.Where(), err)
		}
		if f.report.Source == "" && f.report.Skipped >= maxProblems {
			break // no known format in many lines: the rest of the file is unlikely to be better
		}
	}
	if err := f.endAllRuns(); err != nil {
		return err
	}
	return f.checkRuns()
}

// checkRuns returns an error if the file had no run.
func (f *fileReader) checkRuns() error {
	switch {
	case f.report.Runs > 0:
		return nil
	case len(f.report.Problems) > 0:
		return fmt.Errorf("no run can be read (%s): %w", f.report.Problems[0], ErrFormat)
	}
	return fmt.Errorf("no run found: %w", ErrFormat)
}

// addObject reads an object, which is a run or a part of a run. The argument err is the result of reading its bytes. If the
// object is invalid, addObject reports a problem. A returned error ends the reading.
func (f *fileReader) addObject(raw []byte, err error, at position) error {
	var format *format
	var shape *shape
	if err == nil {
		format, shape, err = detectFormat(raw)
	}
	switch {
	case err != nil:
		f.addProblem(at, err)
		return nil
	case format == nil: // an event that is not a turn
		return nil
	case f.report.Source == "":
		f.report.Source = format.source
	}
	if format.parse == nil {
		return f.addPart(format, shape, raw, at)
	}
	run, err := format.parse(raw)
	return f.deliver(format, run, err, digest(raw), at)
}

// deliver emits a run, or reports the problem err. A returned error ends the reading.
func (f *fileReader) deliver(format *format, run *run, err error, sum []byte, at position) error {
	if err == nil {
		var end error
		if err, end = f.emit(format, run, sum, at); end != nil {
			return end
		}
	}
	if err != nil {
		f.addProblem(at, err)
	}
	return nil
}

func (f *fileReader) addProblem(at position, err error) {
	f.report.Skipped++
	if at.Reason = err.Error(); len(f.report.Problems) < maxProblems {
		f.report.Problems = append(f.report.Problems, at)
	}
}

func (f *fileReader) addRepair(at position, what string) {
	f.report.Repaired++
	if at.Reason = what; len(f.report.Repairs) < maxProblems {
		f.report.Repairs = append(f.report.Repairs, at)
	}
}

// run is an execution with the recorder's name for it.
type run struct {
	*events.Execution
	name      string // the recorder's name within the file; may be empty
	hasTaskID bool   // the execution already has its task id
}

// emit sets the ids of a run and calls fn. The error problem reports an invalid run; the error end is that of fn.
func (f *fileReader) emit(format *format, r *run, sum []byte, at position) (problem, end error) {
	e := r.Execution
	e.Book = f.book
	if !r.hasTaskID {
		id, tail := format.source, hex.EncodeToString(sum)
		if format.byFile {
			id += "/" + f.base
			tail = tail[:8]
		}
		if r.name != "" {
			id += "/" + r.name
		}
		e.TaskID = shorten(id, 256-1-len(tail)) + "/" + tail
	}
	if format.source == sourceTauBench {
		task, _, _ := strings.Cut(r.name, "/")
		e.Origin.Task = shorten(sourceTauBench+"/"+f.base+"/"+task, 256) // the question differs between trials of a task
	}
	e.ID = events.ExecutionID(f.book, e.TaskID, e.Origin.Round)
	e.Origin.Source = cmp.Or(e.Origin.Source, format.source)
	e.Origin.Index = max(at.Index, at.Line)
	if err := e.Validate(); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")), nil
	}
	if err := f.fn(e); err != nil {
		return nil, err
	}
	f.report.Runs++
	return nil, nil
}

// digest returns a hash of a run's JSON without white space, so that a reformatted file has the same runs.
func digest(raw []byte) []byte {
	var same bytes.Buffer
	_ = json.Compact(&same, raw)
	sum := sha256.Sum256(same.Bytes())
	return sum[:16]
}

// baseName returns the file name without folder and extension, for use in an id.
func baseName(name string) string {
	name = filepath.Base(name)
	return printable(strings.TrimSuffix(name, filepath.Ext(name)))
}

// printable replaces the characters of s that an id cannot contain.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(s, "_"))
}

// shorten returns s if it has at most n bytes. Otherwise it replaces the end of s by a hash of s.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return text.Prefix(s, n-17) + "~" + hex.EncodeToString(sum[:8])
}

// clip shortens a tool's output to about maxOutput bytes. It keeps both ends, because errors can be at either end.
func clip(s string) string {
	if len(s) <= maxOutput {
		return s
	}
	const end = maxOutput / 4
	first := text.Prefix(s, maxOutput-end)
	rest := s[len(first):]
	last := rest[len(rest)-end:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	return fmt.Sprintf("%s… [cut %d bytes] …%s", first, len(rest)-len(last), last)
}

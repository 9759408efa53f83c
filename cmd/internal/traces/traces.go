// Package traces reads recorded runs of other agents as executions, so that a book learns from what was done elsewhere
// without doing it again. What a file holds is told by its content, never by its name; the first of these that fits an
// object is what it is taken for:
//
//   - tau-bench results: {task_id, trial, reward, info, traj}, traj being OpenAI chat messages;
//   - SWE-agent trajectories (.traj): an object with trajectory[], history[] or both;
//   - Claude Code: the events of 'claude -p --output-format stream-json', and the transcripts that it keeps. Events of a
//     session_id make a run, which a result event ends; what a session goes on with after it is another run;
//   - OpenClaw sessions: events of type session and message. A session event begins a run;
//   - OpenAI chat: {"messages": […]} as in fine-tuning files, or with request and response as in logs of requests; bare
//     messages make one run of the whole file;
//   - Dynamic Cheatsheet results: {input, target, steps, final_answer, …};
//   - executions, as 'debrief submit --wait --json' prints them and as people write them by hand; see below.
//
// Objects stand one a line (JSON lines), in one JSON list, or alone in a file over several lines. In JSON lines a line
// that cannot be read, such as the last one of a recorder that died, costs that line alone; junk before the first brace
// of a line is left out and told. Events that are no turn of a conversation are passed over.
//
// # What is kept
//
// A step for each turn of a user or an assistant, but for the first thing a user says, which is the question; every tool
// call with what it returned. The output of a call tells whether it failed only where the recorder did not.
//
// What is left out: system prompts and demonstrations, which instruct the recorded agent and are no part of what it did;
// what models think aside (thinking blocks), which quotes those instructions and was said to nobody; the turns of
// sub-agents and what harnesses say in a user's or an assistant's name; and the ground truth that was recorded with a task,
// which would leak into what is learned: of it the outcome remains. The package redacts nothing, judges nothing and
// publishes nothing.
//
// # Executions
//
// A line of our own form needs a question or a task_id, and steps or an answer:
//
//	{"task_id": "berth-7", "question": "A berth for the Tern?", "context": "", "session": "", "answer": "Berth 4",
//	 "steps": [{"speaker": "assistant", "text": "I look.", "tool_calls": [
//	     {"tool": "find_berth", "arguments": "{}", "output": "berth 4", "outcome": "success", "duration_ns": 1000}]}],
//	 "outcome": {"score": 1, "label": "success", "feedback": "", "by": "ann"}}
//
// The outcome is also taken as a word (success, partial, failure, unknown), as a number from 0 to 1, or as true or false.
// Of a tool call it is success, failure, timeout, error, or empty for success. Lines with one task_id are attempts at one
// task. Also read are purpose, target, reasoning, model, usage, started, duration_ns, origin.source and origin.task. What
// was said of a playbook (shown, cited, manifest, trials) is about another book and is not.
//
// # Names
//
// A run's task id is made of what its recorder calls it and a hash of its content: reading a file twice names the same
// executions, and two runs never share a name however their files are called. Two equal runs have one name, and count
// once. A line of our own form that has an id is an execution that was made here, and keeps its task id and so its id.
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
)

// Values of Origin.Source and Report.Source.
const (
	TauBench          = "tau-bench"
	SWEAgent          = "swe-agent"
	ClaudeCode        = "claude-code"
	OpenClaw          = "openclaw"
	OpenAIChat        = "openai-chat"
	DynamicCheatsheet = "dynamic-cheatsheet"
	Executions        = "debrief"
)

// Bounds of what is read.
const (
	MaxRun      = 16 << 20 // bytes of JSON of one run, and of one line; a larger one is passed over and reported
	MaxOpen     = 64       // runs whose lines take turns in a file; one more ends the one that was longest without a line, and so do more than 1.5 × MaxRun bytes
	MaxOutput   = 16 << 10 // bytes of a tool's output; of a longer one both ends are kept, with a mark between
	MaxProblems = 100      // problems kept in a report, and repairs; the counts have them all
)

// ErrFormat is returned when the file holds none of the formats.
var ErrFormat = errors.New("want tau-bench results, SWE-agent .traj, Claude Code stream-json, OpenClaw session, OpenAI chat, " +
	"Dynamic Cheatsheet results or executions")

// Report is what became of a file.
type Report struct {
	Source   string // of the first run, or part of one, that was found
	Runs     int    // runs handed on
	Skipped  int    // runs, or lines of runs, that could not be read
	Repaired int    // lines that were read without the junk before them
	Problems []Problem
	Repairs  []Problem
}

// Problem is what was not read of a file.
type Problem struct {
	Line   int // from 1; 0 in a list
	Index  int // of the element in a list, from 0
	Reason string
}

// Where is the place in the file: "line 3" or "element 2".
func (p Problem) Where() string {
	if p.Line > 0 {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("element %d", p.Index)
}

func (p Problem) String() string { return p.Where() + ": " + p.Reason }

// Read hands the runs in r to fn, one by one as they end in the file; what it has in memory is bounded, however
// long the file is. The name is the file's: it is in errors, and in the task ids of tau-bench and SWE-agent. What cannot
// be read becomes a Problem and the rest goes on; the report counts what was done also when an error ends the reading. An
// error of fn ends it, wrapped.
func Read(ctx context.Context, book playbook.Book, name string, r io.Reader, fn func(*events.Execution) error) (Report, error) {
	f := file{book: book, base: base(name), limit: MaxRun, fn: fn}
	if err := f.read(ctx, r); err != nil {
		return f.report, fmt.Errorf("read %s: %w", name, err)
	}
	return f.report, nil
}

type file struct {
	book   playbook.Book
	base   string
	limit  int
	fn     func(*events.Execution) error
	open   []*unfinished // in the order of their first parts
	parts  int           // that were gathered so far
	report Report
}

// place is where an object stands in the file: Problem without a reason.
type place = Problem

func (f *file) read(ctx context.Context, r io.Reader) error {
	l := newLines(r, f.limit)
	switch first, err := l.peek(); {
	case err == io.EOF:
		return fmt.Errorf("is empty: %w", ErrFormat)
	case err != nil:
		return err
	case first == '[':
		return f.readList(ctx, &scanner{r: l.r})
	}
	line, err := l.next()
	if err == nil && unfinishedObject(line) {
		return f.readObject(ctx, &scanner{r: bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(line)), l.r))})
	}
	return f.readLines(ctx, l, line, err)
}

// readObject reads a file that is one object, spread over several lines.
func (f *file) readObject(ctx context.Context, s *scanner) error {
	raw, err := s.value(f.limit)
	if err != nil {
		return err
	}
	form, _, err := formOf(raw)
	switch {
	case err != nil:
	case form == nil:
		err = errors.New("is one event of a log")
	case form.whole == nil:
		err = fmt.Errorf("is one event of %s over several lines, want a line for each", form.source)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrFormat)
	}
	f.report.Source = form.source
	run, err := form.whole(raw)
	if err != nil {
		return err
	}
	if err := errors.Join(s.end(), ctx.Err()); err != nil {
		return err
	}
	problem, err := f.emit(form, run, digest(raw), place{})
	return errors.Join(problem, err)
}

func (f *file) readList(ctx context.Context, s *scanner) error {
	s.skip() // the bracket
	for i := 0; ; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := s.more(i == 0)
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
		if err := f.take(raw, err, place{Index: i}); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	if err := f.finish(); err != nil {
		return err
	}
	if f.report.Runs == 0 && f.report.Skipped == 0 {
		return fmt.Errorf("the list is empty: %w", ErrFormat)
	}
	return errors.Join(f.some(), s.end())
}

// readLines reads JSON lines; the first one was read already.
func (f *file) readLines(ctx context.Context, l *lines, line []byte, err error) error {
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
		at := place{Line: l.n}
		if clean := withoutJunk(line); clean != nil {
			junk := line[:len(line)-len(clean)]
			f.repaired(at, fmt.Sprintf("was read without the %d bytes before its first brace: %.40q", len(junk), junk))
			line = clean
		}
		if err := f.take(line, err, at); err != nil {
			return fmt.Errorf("%s: %w", at.Where(), err)
		}
		if f.report.Source == "" && f.report.Skipped >= MaxProblems {
			break // it will not get better
		}
	}
	if err := f.finish(); err != nil {
		return err
	}
	return f.some()
}

// some is an error where a file had no run.
func (f *file) some() error {
	switch {
	case f.report.Runs > 0:
		return nil
	case len(f.report.Problems) > 0:
		return fmt.Errorf("no run in it can be read (%s): %w", f.report.Problems[0], ErrFormat)
	}
	return fmt.Errorf("there is no run in it: %w", ErrFormat)
}

// take reads an object, a run or a part of one. What is wrong with it is a problem of the file; the error is the end of
// the reading.
func (f *file) take(raw []byte, err error, at place) error {
	var form *form
	var shape *shape
	if err == nil {
		form, shape, err = formOf(raw)
	}
	switch {
	case err != nil:
		f.problem(at, err)
		return nil
	case form == nil: // an event that is no turn
		return nil
	case f.report.Source == "":
		f.report.Source = form.source
	}
	if form.whole == nil {
		return f.gather(form, shape, raw, at)
	}
	run, err := form.whole(raw)
	return f.deliver(form, run, err, digest(raw), at)
}

// deliver hands on a run, or tells what is wrong with it.
func (f *file) deliver(form *form, run *run, err error, sum []byte, at place) error {
	if err == nil {
		var end error
		if err, end = f.emit(form, run, sum, at); end != nil {
			return end
		}
	}
	if err != nil {
		f.problem(at, err)
	}
	return nil
}

func (f *file) problem(at place, err error) {
	f.report.Skipped++
	if at.Reason = err.Error(); len(f.report.Problems) < MaxProblems {
		f.report.Problems = append(f.report.Problems, at)
	}
}

func (f *file) repaired(at place, what string) {
	f.report.Repaired++
	if at.Reason = what; len(f.report.Repairs) < MaxProblems {
		f.report.Repairs = append(f.report.Repairs, at)
	}
}

// run is a run with what its recorder calls it.
type run struct {
	*events.Execution
	place string // within what is recorded; may be empty
	named bool   // it has its task id
}

// emit names a run and hands it on. The first error is what is wrong with the run, the second one is of who takes it.
func (f *file) emit(form *form, r *run, sum []byte, at place) (problem, end error) {
	e := r.Execution
	e.Book = f.book
	if !r.named {
		id, tail := form.source, hex.EncodeToString(sum)
		if form.byFile {
			id += "/" + f.base
			tail = tail[:8]
		}
		if r.place != "" {
			id += "/" + r.place
		}
		e.TaskID = bounded(id, 256-1-len(tail)) + "/" + tail
	}
	if form.source == TauBench {
		task, _, _ := strings.Cut(r.place, "/")
		e.Origin.Task = bounded(TauBench+"/"+f.base+"/"+task, 256) // its trials begin in other words, so the question does not tell
	}
	e.ID = events.ExecutionID(f.book, e.TaskID, e.Origin.Round)
	e.Origin.Source = cmp.Or(e.Origin.Source, form.source)
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

// digest is the hash of a run's content without white space, so that a reformatted file holds the same runs.
func digest(raw []byte) []byte {
	var same bytes.Buffer
	_ = json.Compact(&same, raw)
	sum := sha256.Sum256(same.Bytes())
	return sum[:16]
}

// base is the file's name without folder and extension.
func base(name string) string {
	name = filepath.Base(name)
	return printable(strings.TrimSuffix(name, filepath.Ext(name)))
}

// printable is s as a part of an id.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(s, "_"))
}

// bounded is s in at most n bytes: what does not fit gives way to a hash of the whole.
func bounded(s string, n int) string {
	if len(s) <= n {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return head(s, n-17) + "~" + hex.EncodeToString(sum[:8])
}

// clip is a tool's output within MaxOutput. Errors stand at either end of an output, so both are kept.
func clip(s string) string {
	if len(s) <= MaxOutput {
		return s
	}
	const end = MaxOutput / 4
	first := head(s, MaxOutput-end)
	rest := s[len(first):]
	last := rest[len(rest)-end:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	return fmt.Sprintf("%s… [cut %d bytes] …%s", first, len(rest)-len(last), last)
}

// head is the longest beginning of s within n bytes that splits no character.
func head(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Package traces reads recorded runs of other agents as executions, so that a book learns from what was done elsewhere
// without doing it again. It knows two formats:
//
//   - tau-bench results: a JSON list of {task_id, trial, reward, info, traj}, traj being OpenAI chat messages;
//   - SWE-agent trajectories (.traj): a JSON object with trajectory[], history[] or both.
//
// What it leaves out: system prompts and demonstrations, which instruct the recorded agent and are no part of what it
// did, and the ground truth that tau-bench records with a task, which would leak into what is learned. It redacts
// nothing, judges nothing and publishes nothing.
//
// A run's task id is made of its place in the file and a hash of its content: reading a file twice names the same
// executions, and two runs never share a name however their files are called.
package traces

import (
	"bytes"
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
	TauBench = "tau-bench"
	SWEAgent = "swe-agent"
)

// Bounds of what is read.
const (
	MaxRun      = 64 << 20 // bytes of JSON of one run; a larger one in a list is passed over and reported
	MaxOutput   = 16 << 10 // bytes of a tool's output; of a longer one both ends are kept, with a mark between
	MaxProblems = 100      // problems kept in a report; Skipped counts them all
)

// ErrFormat is returned when the file holds none of the formats.
var ErrFormat = errors.New("want tau-bench results (a JSON list of {task_id, trial, reward, info, traj}) " +
	"or a SWE-agent .traj (a JSON object with trajectory or history)")

// Report is what became of a file.
type Report struct {
	Source   string // TauBench or SWEAgent, empty before that is known
	Runs     int    // runs handed on
	Skipped  int    // runs that could not be read
	Problems []Problem
}

// Problem is a run of a list that could not be read.
type Problem struct {
	Index  int // of the element in the list, from 0
	Reason string
}

func (p Problem) String() string { return fmt.Sprintf("element %d: %s", p.Index, p.Reason) }

// Read hands the runs in r to fn, one by one in the order of the file and with no more than one in memory. The name is
// the file's: it is part of the task ids and of errors. A run of a list that cannot be read becomes a Problem and the
// others go on; the report counts what was done also when an error ends the reading. An error of fn ends it, wrapped.
func Read(ctx context.Context, book playbook.Book, name string, r io.Reader, fn func(*events.Execution) error) (Report, error) {
	f := file{book: book, base: base(name), limit: MaxRun, fn: fn, seen: map[events.ID]int{}}
	if err := f.read(ctx, newScanner(r)); err != nil {
		return f.report, fmt.Errorf("read %s: %w", name, err)
	}
	return f.report, nil
}

type file struct {
	book   playbook.Book
	base   string
	limit  int
	fn     func(*events.Execution) error
	seen   map[events.ID]int // index of the element that an execution came from
	report Report
}

func (f *file) read(ctx context.Context, s *scanner) error {
	switch first, err := s.peek(); {
	case err == io.EOF:
		return fmt.Errorf("is empty: %w", ErrFormat)
	case err != nil:
		return err
	case first == '[':
		return f.readList(ctx, s)
	case first == '{':
		return f.readObject(ctx, s)
	default:
		return fmt.Errorf("begins with %q: %w", first, ErrFormat)
	}
}

func (f *file) readObject(ctx context.Context, s *scanner) error {
	raw, err := s.value(f.limit)
	if err != nil {
		return err
	}
	e, err := sweAgent(raw)
	if _, broken := errors.AsType[*json.SyntaxError](err); broken {
		return fmt.Errorf("%w: %w", err, ErrFormat)
	}
	if err != nil {
		return err
	}
	f.report.Source = SWEAgent
	if err := errors.Join(s.end(), ctx.Err()); err != nil {
		return err
	}
	f.name(e, SWEAgent, "", raw)
	return f.emit(e, 0)
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
		e, err := f.element(raw, err, i)
		if err != nil {
			f.report.Skipped++
			if len(f.report.Problems) < MaxProblems {
				f.report.Problems = append(f.report.Problems, Problem{i, err.Error()})
			}
			continue
		}
		f.report.Source = TauBench
		if err := f.emit(e, i); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	if f.report.Runs == 0 {
		reason := "the list is empty"
		if len(f.report.Problems) > 0 {
			reason = f.report.Problems[0].String()
		}
		return fmt.Errorf("no run in it can be read (%s): %w", reason, ErrFormat)
	}
	return s.end()
}

// element is the run in an element of a list, where err is nil. One that the file has twice is one sample.
func (f *file) element(raw []byte, err error, i int) (*events.Execution, error) {
	if err != nil {
		return nil, err
	}
	e, place, err := tauBench(raw)
	if err != nil {
		return nil, err
	}
	f.name(e, TauBench, place, raw)
	task, _, _ := strings.Cut(place, "/")
	e.Origin.Task = bounded(TauBench+"/"+f.base+"/"+task, 256) // its trials begin in other words, so the question does not tell
	if first, twice := f.seen[e.ID]; twice {
		return nil, fmt.Errorf("is the same run as element %d", first)
	}
	f.seen[e.ID] = i
	return e, nil
}

func (f *file) emit(e *events.Execution, index int) error {
	e.Origin.Index = index
	if err := f.fn(e); err != nil {
		return err
	}
	f.report.Runs++
	return nil
}

// name gives an execution its book and ids.
func (f *file) name(e *events.Execution, source, place string, raw []byte) {
	var same bytes.Buffer // without white space, so that a reformatted file holds the same runs
	json.Compact(&same, raw)
	sum := sha256.Sum256(same.Bytes())
	id := source + "/" + f.base
	if place != "" {
		id += "/" + place
	}
	e.Book = f.book
	e.TaskID = bounded(id, 256-9) + "/" + hex.EncodeToString(sum[:4])
	e.ID = events.ExecutionID(f.book, e.TaskID, 0)
	e.Origin.Source = source
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

// Package dataset reads the tasks of runs over a data set, and writes them. A file holds JSON objects, one a line or as
// one list:
//
//	{"id": "q1", "question": "…", "context": "…", "target": "…", "evaluator": "numeric", "session": "…"}
//
// Only the question is needed. "ground_truth" stands in for "target"; other fields, "metadata" among them, are passed
// over. A sample without a question is one of the ACE authors' raw ones (ace-agent/ace), {"context", "target"}: its
// context is the question, or has it inside; see Form.
//
// What cannot be read is a Problem with its line, and reading goes on behind it: no bad line costs another one. Lines of
// white space are passed over. Nothing is guessed from a file's name, and nothing in a file is executed.
package dataset

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"debrief/events"
)

// Bounds of what is read.
const (
	MaxSample   = 16 << 20 // bytes of JSON of one sample; a larger one is a Problem
	MaxSet      = 1 << 30  // bytes of questions, contexts and targets of a Set
	MaxProblems = 100      // problems that a Set keeps; Unread counts them all
)

// ErrFormat is returned when nothing in a file is a task.
var ErrFormat = errors.New(`want JSON objects, one a line or in a list, with "question" (or "context" alone), and "target" where answers are to be judged`)

// Form is how a sample's fields become a task.
type Form string

// The forms. Without one, a sample with a question is JSON; one without is Formula or FiNER where what it asks for and
// its target both are that, and ACE where that is not sure.
const (
	// JSON samples have a question.
	JSON Form = "json"
	// ACE samples without a question ask with the whole of their context.
	ACE Form = "ace"
	// Formula samples without a question have it between "Question:" and the last "Answer:" of their context, within
	// quotes, with a full stop behind it, or without; one that does not asks with all of it. The context stays as it is.
	// They are judged as numbers.
	Formula Form = "formula"
	// FiNER samples are as ACE's. They are judged as lists, tag by tag.
	FiNER Form = "finer"
)

// fields are the names that Options.Fields can map, and what files call them without that.
var fields = map[string][]string{
	"id": {"id"}, "question": {"question"}, "context": {"context"}, "target": {"target", "ground_truth"},
	"evaluator": {"evaluator"}, "session": {"session"},
}

// Options say how a file is to be understood. The zero value will do for the forms above.
type Options struct {
	// Fields has the names that the file uses for ours: {"question": "prompt"}. A name with dots is also looked for
	// within objects: "input.text".
	Fields map[string]string
	// Form of all samples; empty tells by each one's content.
	Form Form
	// Evaluator of all samples, whatever they say themselves; empty leaves it to them and to their form.
	Evaluator string
	// Check says what is wrong with the name of an evaluator: a sample that names one that will not do is a Problem. Nil
	// takes any.
	Check func(evaluator string) error
	// MaxSamples ends the reading after so many tasks; 0 is all.
	MaxSamples int
}

// Validate names what is wrong with the options.
func (o *Options) Validate() error {
	switch o.Form {
	case "", JSON, ACE, Formula, FiNER:
	default:
		return fmt.Errorf("form: %q is none of %s, %s, %s, %s", o.Form, JSON, ACE, Formula, FiNER)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
		if fields[name] == nil {
			return fmt.Errorf("field %q: is none of %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if o.Fields[name] == "" {
			return fmt.Errorf("field %q: want the name that the file uses for it", name)
		}
	}
	if o.MaxSamples < 0 {
		return fmt.Errorf("max samples: cannot be negative, got %d", o.MaxSamples)
	}
	return nil
}

// Problem is a sample that could not be read.
type Problem struct {
	Line   int    `json:"line"` // that it begins in, from 1
	Reason string `json:"reason"`
}

func (p *Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Reason) }

// Set is a file that was read. Book, purpose, origin and playbook of its tasks are the caller's to set.
type Set struct {
	Tasks    []events.Task
	SHA256   string // of the whole file, also where MaxSamples cut it short; hex
	Unread   int    // samples that could not be read
	Problems []Problem
}

// Read reads all tasks of a file. Its name is for errors. A file with no task is an ErrFormat that says what is wrong
// with its first sample.
func Read(ctx context.Context, name string, r io.Reader, o Options) (*Set, error) {
	set, err := read(ctx, r, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return set, nil
}

func read(ctx context.Context, r io.Reader, o Options) (*Set, error) {
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	samples, err := NewReader(in, o)
	if err != nil {
		return nil, err
	}
	set, size := new(Set), 0
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := samples.Next()
		if p, bad := errors.AsType[*Problem](err); bad {
			if set.Unread++; len(set.Problems) < MaxProblems {
				set.Problems = append(set.Problems, *p)
			}
			continue
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if size += len(t.Question) + len(t.Context) + len(t.Target); size > MaxSet {
			return nil, fmt.Errorf("its tasks are larger than %d MiB: cut it into several files, or bound the number of samples", MaxSet>>20)
		}
		set.Tasks = append(set.Tasks, t)
	}
	if len(set.Tasks) == 0 {
		if set.Unread == 0 {
			return nil, fmt.Errorf("is empty: %w", ErrFormat)
		}
		return nil, fmt.Errorf("no task in it can be read (%w): %w", &set.Problems[0], ErrFormat)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, err
	}
	set.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return set, nil
}

// sample is a task as a line has it.
type sample struct {
	ID        string `json:"id"`
	Session   string `json:"session,omitempty"`
	Question  string `json:"question"`
	Context   string `json:"context,omitempty"`
	Target    string `json:"target,omitempty"`
	Evaluator string `json:"evaluator,omitempty"`
}

// Write writes tasks so that Read finds them again: what they ask and how they are judged, one a line.
func Write(w io.Writer, tasks []events.Task) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for i := range tasks {
		t := &tasks[i]
		if err := enc.Encode(sample{t.ID, t.Session, t.Question, t.Context, t.Target, t.Evaluator}); err != nil {
			return fmt.Errorf("write task %q: %w", cmp.Or(t.ID, fmt.Sprint(i)), err)
		}
		if _, err := buf.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}

// Package dataset reads and writes the tasks of a data set. A file contains JSON objects, one on each line or in one
// list:
//
//	{"id": "q1", "question": "…", "context": "…", "target": "…", "evaluator": "numeric", "session": "…"}
//
// Only the question is required. "ground_truth" is another name for "target". Other fields, such as "metadata", are
// ignored. A sample without a question asks with its context, as the samples of ACE do (ace-agent/ace). A context that is equal to the
// question is left out.
//
// An invalid sample is a SampleError with its line or element, and reading continues after it. Blank lines are ignored. The name of a
// file has no meaning, and nothing in a file is executed.
package dataset

import (
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

	"debrief/cmd/internal/runs/source"
	"debrief/events"
	"debrief/playbook/text"
)

// Limits of the input.
const (
	maxSample   = 16 << 20 // bytes of JSON of one sample; a larger sample is a SampleError
	maxSet      = 1 << 30  // bytes of the questions, contexts and targets of a Set
	maxProblems = 100      // problems that a Set keeps; Invalid counts all of them
)

// errFormat is returned when a file contains no task.
var errFormat = errors.New(`want JSON objects, one on each line or in a list, with "question" (or only "context"), and "target" for scored answers`)

// fields maps each name allowed in Options.Fields to the names that the field has in a file by default.
var fields = map[string][]string{
	"id": {"id"}, "question": {"question"}, "context": {"context"}, "target": {"target", "ground_truth"},
	"evaluator": {"evaluator"}, "session": {"session"},
}

// Options control how a file is read. The zero value reads the fields of the package comment.
type Options struct {
	// Fields maps our field names to the names in the file: {"question": "prompt"}. A name with dots may also be a
	// path into objects: "input.text". A name in the file that is mapped here does not count as the default of another field.
	Fields map[string]string
	// Evaluator of all samples; empty uses the evaluator of the sample.
	Evaluator string
	// Check returns an error for the name of an invalid evaluator. A sample with an invalid evaluator is a SampleError.
	// Nil accepts all names.
	Check func(evaluator string) error
	// MaxSamples is the maximum number of tasks to read; 0 reads all.
	MaxSamples int
}

// Validate returns an error for an invalid option.
func (o *Options) Validate() error {
	for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
		if fields[name] == nil {
			return fmt.Errorf("field %q: unknown: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if o.Fields[name] == "" {
			return fmt.Errorf("field %q: the name in the file is empty", name)
		}
	}
	if o.MaxSamples < 0 {
		return fmt.Errorf("max samples: must be at least 0, got %d", o.MaxSamples)
	}
	return nil
}

// SampleError is a sample that could not be read.
type SampleError struct {
	Place  string `json:"place"` // "line 3" or "element 3", from 1
	Reason string `json:"reason"`
}

func (p *SampleError) Error() string { return p.Place + ": " + p.Reason }

// Set is the contents of a file. The caller sets book, purpose, origin and playbook of the tasks.
type Set struct {
	Tasks    []events.Task
	SHA256   string // of the whole file, even if MaxSamples ended the reading; hexadecimal
	Invalid  int    // samples that could not be read
	Problems []SampleError
}

// Read reads all tasks of a file. Its name is used in errors. The error for a file without a task has the problem of the
// first sample. If the rest of the data cannot be read as samples, for example because a list is cut off, the set has that problem.
func Read(ctx context.Context, name string, r io.Reader, o Options) (*Set, error) {
	set, err := read(ctx, r, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return set, nil
}

func read(ctx context.Context, in io.Reader, o Options) (*Set, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	sum := sha256.New()
	in = io.TeeReader(in, sum)
	r := &reader{ctx: ctx, o: o, seen: map[events.ID]string{}}
	values := source.NewValues(in, maxSample)
	err := values.Each(r.add)
	switch {
	case r.ended != nil && !errors.Is(r.ended, errEnough):
		return nil, r.ended
	case r.ended == nil && err != nil: // of values: the data from here on is not a list or lines of samples
		r.addProblem(fmt.Sprintf("element %d", r.n+1), fmt.Errorf("cannot be read from here: %w", err))
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // the hash includes the data after MaxSamples
		return nil, err
	}
	set := &r.set
	if len(set.Tasks) == 0 {
		if set.Invalid == 0 {
			return nil, fmt.Errorf("is empty: %w", errFormat)
		}
		return nil, fmt.Errorf("no valid task (%w): %w", &set.Problems[0], errFormat)
	}
	set.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return set, nil
}

// reader reads the samples of a file.
type reader struct {
	ctx   context.Context
	o     Options
	set   Set
	size  int                  // bytes of the texts of the tasks
	n     int                  // elements of the current list so far
	seen  map[events.ID]string // the place of each task, by the hash of the task's id
	ended error                // the reason to read no further; nil at the end of the data
}

// errEnough ends the reading after Options.MaxSamples.
var errEnough = errors.New("enough samples")

// add adds the task of a value, or the problem of an invalid one. A duplicate id is a problem.
func (r *reader) add(v *source.Value) error {
	kind, n := "line", v.At.Line
	if n == 0 {
		r.n = v.At.Index + 1
		kind, n = "element", r.n
	}
	place := fmt.Sprintf("%s %d", kind, n)
	err := v.Err
	var t events.Task
	if err == nil {
		t, err = r.o.task(v.Raw, fmt.Sprintf("%s-%d", kind, n))
	}
	id := events.Hash(t.ID)
	if err == nil && r.seen[id] != "" {
		err = fmt.Errorf("id %q: duplicate of %s", t.ID, r.seen[id])
	}
	if err != nil {
		r.addProblem(place, err)
		r.ended = r.ctx.Err()
		return r.ended
	}
	r.seen[id] = place
	r.set.Tasks = append(r.set.Tasks, t)
	r.size += len(t.Question) + len(t.Context) + len(t.Target)
	switch {
	case r.size > maxSet:
		r.ended = fmt.Errorf("the tasks are larger than %d MiB: split the file, or limit the number of samples", maxSet>>20)
	case len(r.set.Tasks) == r.o.MaxSamples:
		r.ended = errEnough
	default:
		r.ended = r.ctx.Err()
	}
	return r.ended
}

// addProblem adds a sample that could not be read.
func (r *reader) addProblem(place string, err error) {
	r.set.Invalid++
	if len(r.set.Problems) < maxProblems {
		r.set.Problems = append(r.set.Problems, SampleError{Place: place, Reason: text.Line(err.Error(), 300)})
	}
}

// sample is the JSON of a task.
type sample struct {
	ID        string `json:"id"`
	Session   string `json:"session,omitempty"`
	Question  string `json:"question"`
	Context   string `json:"context,omitempty"`
	Target    string `json:"target,omitempty"`
	Evaluator string `json:"evaluator,omitempty"`
}

// Write writes tasks in the format that Read reads, one on each line.
func Write(w io.Writer, tasks []events.Task) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range tasks {
		t := &tasks[i]
		s := sample{ID: t.ID, Session: t.Session, Question: t.Question, Context: t.Context, Target: t.Target, Evaluator: t.Evaluator}
		if err := enc.Encode(s); err != nil {
			return fmt.Errorf("write task %q: %w", cmp.Or(t.ID, fmt.Sprint(i)), err)
		}
	}
	return nil
}

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

	"debrief/events"
)

// Limits of the input.
const (
	maxSample   = 16 << 20 // bytes of JSON of one sample; a larger sample is a SampleError
	maxSet      = 1 << 30  // bytes of the questions, contexts and targets of a Set
	maxProblems = 100      // problems that a Set keeps; Invalid counts all of them
)

// errFormat is returned when a file contains no task.
var errFormat = errors.New(`want JSON objects, one on each line or in a list, with "question" (or only "context"), and "target" for scored answers`)

// fields has the names allowed in Options.Fields. Each has the names of the field in a file for which the option is not set.
var fields = map[string][]string{
	"id": {"id"}, "question": {"question"}, "context": {"context"}, "target": {"target", "ground_truth"},
	"evaluator": {"evaluator"}, "session": {"session"},
}

// Options control how a file is read. The zero value reads the fields of the package comment.
type Options struct {
	// Fields maps our field names to the names in the file: {"question": "prompt"}. A name with dots may also be a
	// path into objects: "input.text". A field that is mapped here is the default of no other field.
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
// first sample.
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
	set, size := new(Set), 0
	err := Each(in, o, func(t *events.Task, problem *SampleError) error {
		if problem != nil {
			set.Invalid++
			if len(set.Problems) < maxProblems {
				set.Problems = append(set.Problems, *problem)
			}
			return ctx.Err()
		}
		size += len(t.Question) + len(t.Context) + len(t.Target)
		if size > maxSet {
			return fmt.Errorf("the tasks are larger than %d MiB: split the file, or limit the number of samples", maxSet>>20)
		}
		set.Tasks = append(set.Tasks, *t)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	if len(set.Tasks) == 0 {
		if set.Invalid == 0 {
			return nil, fmt.Errorf("is empty: %w", errFormat)
		}
		return nil, fmt.Errorf("no valid task (%w): %w", &set.Problems[0], errFormat)
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // the hash includes the data after MaxSamples
		return nil, err
	}
	set.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return set, nil
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

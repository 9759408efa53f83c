package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"

	"debrief/cmd/internal/runs/source"
	"debrief/events"
	"debrief/playbook/text"
)

// errEnough ends the reading after Options.MaxSamples.
var errEnough = errors.New("enough samples")

// errorReader keeps the error of a reader, to tell it from an error in the data.
type errorReader struct {
	io.Reader
	err error
}

func (r *errorReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// reader reads the samples of a file.
type reader struct {
	Set
	ctx     context.Context
	o       Options
	n       int                  // elements of the list so far
	size    int                  // of the texts of the tasks
	seen    map[events.ID]string // the place of each task, by the hash of the task's id
	stopped bool                 // the reading ended before the end of the file
}

// add adds the task of a value. A duplicate id is a problem.
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
	if first := r.seen[id]; err == nil && first != "" {
		err = fmt.Errorf("id %q: duplicate of %s", t.ID, first)
	}
	if err != nil {
		r.skip(place, err)
	} else {
		r.seen[id] = place
		r.Tasks = append(r.Tasks, t)
		r.size += len(t.Question) + len(t.Context) + len(t.Target)
	}
	err = r.ctx.Err()
	switch {
	case err != nil:
	case r.size > maxSet:
		err = fmt.Errorf("the tasks are larger than %d MiB: split the file, or limit the number of samples", maxSet>>20)
	case r.o.MaxSamples > 0 && len(r.seen) == r.o.MaxSamples:
		err = errEnough
	}
	r.stopped = err != nil
	return err
}

// skip records an invalid sample.
func (r *reader) skip(place string, why error) {
	r.Invalid++
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, SampleError{place, text.Line(why.Error(), 300)})
	}
}

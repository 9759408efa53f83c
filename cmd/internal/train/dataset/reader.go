package dataset

import (
	"errors"
	"fmt"
	"io"

	"debrief/cmd/internal/runs/source"
	"debrief/events"
	"debrief/playbook/text"
)

// Each calls fn for each sample of a file or a pipe, as soon as the sample is complete: with its task, or with the problem of an invalid
// sample. If the rest of the data cannot be read as samples, for example because a list is cut off, Each calls fn once more with that problem.
// Each ends with the first error of fn or r, and returns it.
func Each(r io.Reader, o Options, fn func(*events.Task, *SampleError) error) error {
	if err := o.Validate(); err != nil {
		return err
	}
	in := &errorReader{Reader: r}
	samples := &reader{o: o, fn: fn, seen: map[events.ID]string{}}
	values := source.NewValues(in, maxSample)
	values.AsIs = true // do not repair a line with other bytes before its object: it may be a comment
	err := values.Each(samples.add)
	if errors.Is(err, errEnough) {
		return nil
	}
	if err == nil || samples.stopped || in.err != nil { // no error, or one of fn or r
		return err
	}
	return fn(nil, &SampleError{Place: fmt.Sprintf("element %d", samples.n+1), Reason: "cannot be read from here: " + text.Line(err.Error(), 300)})
}

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
	o       Options
	fn      func(*events.Task, *SampleError) error
	n       int                  // elements of the current list so far
	seen    map[events.ID]string // the place of each task, by the hash of the task's id
	stopped bool                 // fn has returned an error
}

// add calls fn with the task of a value, or with the problem of an invalid one. A duplicate id is a problem.
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
		err = r.fn(nil, &SampleError{Place: place, Reason: text.Line(err.Error(), 300)})
	} else {
		r.seen[id] = place
		err = r.fn(&t, nil)
	}
	r.stopped = err != nil
	hasEnough := r.o.MaxSamples > 0 && len(r.seen) == r.o.MaxSamples
	if err == nil && hasEnough {
		return errEnough
	}
	return err
}

package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"debrief/cmd/internal/traces/source"
	"debrief/events"
	"debrief/playbook/text"
)

// Reader reads tasks one by one from a stream, each with at most 16 MiB. It remembers the ids of the tasks,
// because a sample counts once: a duplicate id is a Problem.
type Reader struct {
	src  splitter
	o    Options
	seen map[events.ID]int // line of the task by the hash of its id
	err  error             // the error that ended the reading
}

// NewReader returns a reader of a file or a pipe. It returns an error for invalid options.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Reader{src: splitter{r: r}, o: o, seen: map[events.ID]int{}}, nil
}

// Next returns the next task. A *Problem is an invalid sample; the next call continues after it. The error is io.EOF
// at the end; any other error ends the reading.
func (r *Reader) Next() (events.Task, error) {
	if r.err == nil && r.o.MaxSamples > 0 && len(r.seen) == r.o.MaxSamples {
		r.err = io.EOF
	}
	if r.err != nil {
		return events.Task{}, r.err
	}
	raw, err := r.src.next()
	bad := func(err error) (events.Task, error) {
		return events.Task{}, &Problem{r.src.line, r.src.element() + text.Line(err.Error(), 300)}
	}
	if f, is := errors.AsType[fault](err); is {
		return bad(f)
	}
	if err != nil {
		r.err = err
		return events.Task{}, err
	}
	t, err := r.o.task(raw, r.src.place())
	if err != nil {
		return bad(err)
	}
	id := events.Hash(t.ID)
	if first, twice := r.seen[id]; twice {
		return bad(fmt.Errorf("id %q: duplicate of line %d", t.ID, first))
	}
	r.seen[id] = r.src.line
	return t, nil
}

// fault is an error in the bytes of a sample, or between samples. Reading continues after it.
type fault string

func (f fault) Error() string { return string(f) }

const (
	errLong = fault("longer than 16 MiB")
	errCut  = fault("unexpected end of the list: the file is truncated")
	errMore = fault("unexpected data after the end of the list")
)

// splitter splits a stream into the bytes of samples without parsing them. Samples are lines, or elements of a list if
// the stream begins with a bracket. An error in one sample does not affect the others.
type splitter struct {
	r     io.Reader
	lines *source.Lines   // nil before the first sample
	scan  *source.Scanner // of a list, else nil
	line  int             // first line of the sample
	n     int             // elements so far
	ended bool            // the end of the list was read
	done  bool
}

// next returns the bytes of the next sample. They are valid until the next call.
func (s *splitter) next() ([]byte, error) {
	if s.done {
		return nil, io.EOF
	}
	if s.lines == nil {
		s.lines = source.NewLines(s.r, maxSample)
		s.lines.KeepSpace = true // only the white space of JSON is blank
		c, err := s.lines.Peek()
		if err != nil {
			return nil, err
		}
		if c == '[' {
			s.scan = s.lines.Scanner()
			s.scan.Skip()
		}
	}
	if s.scan != nil {
		return s.nextElement()
	}
	return s.nextLine()
}

// place returns the position of a sample for its id. The element number of a list does not change when the list is
// reformatted.
func (s *splitter) place() string {
	if s.scan != nil {
		return fmt.Sprintf("item-%d", s.n)
	}
	return fmt.Sprintf("line-%d", s.line)
}

// element returns the position of the sample for errors.
func (s *splitter) element() string {
	if s.scan != nil && !s.ended {
		return fmt.Sprintf("element %d: ", s.n)
	}
	return ""
}

// nextLine returns the next line that is not blank.
func (s *splitter) nextLine() ([]byte, error) {
	for {
		line, err := s.lines.Next()
		s.line = s.lines.N
		switch {
		case errors.Is(err, source.ErrTooLarge):
			return nil, errLong
		case err != nil || len(bytes.Trim(line, " \t\r")) > 0:
			return line, err
		}
	}
}

// nextElement returns the next element of a list. It accepts missing and additional commas, so that no sample is
// lost.
func (s *splitter) nextElement() ([]byte, error) {
	c, err := s.scan.Peek()
	for err == nil && c == ',' && !s.ended {
		s.scan.Skip()
		c, err = s.scan.Peek()
	}
	s.line = s.scan.Lines + 1
	switch {
	case err == io.EOF && !s.ended:
		s.ended = true
		return nil, errCut
	case err != nil:
		return nil, err
	case s.ended:
		s.done = true
		if _, err := io.Copy(io.Discard, s.r); err != nil {
			return nil, err
		}
		return nil, errMore
	case c == ']':
		s.scan.Skip()
		s.ended = true
		return s.nextElement()
	}
	s.n++
	raw, err := s.scan.Value(maxSample)
	switch {
	case errors.Is(err, source.ErrTooLarge):
		return nil, errLong
	case errors.Is(err, io.ErrUnexpectedEOF):
		s.ended = true
		return nil, errCut
	}
	return raw, err
}

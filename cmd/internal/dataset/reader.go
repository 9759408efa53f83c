package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"debrief/cmd/internal/room"
	"debrief/events"
	"debrief/playbook/text"
)

// Reader reads tasks one by one from a stream, each with at most 16 MiB. It remembers the ids of the tasks,
// because a sample counts once: a duplicate id is a Problem.
type Reader struct {
	src  source
	o    Options
	seen map[events.ID]int // line of the task by the hash of its id
	err  error             // the error that ended the reading
}

// NewReader returns a reader of a file or a pipe. It returns an error for invalid options.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Reader{src: source{r: bufio.NewReaderSize(r, 64<<10)}, o: o, seen: map[events.ID]int{}}, nil
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

// source splits a stream into the bytes of samples without parsing them. Samples are lines, or elements of a list if
// the stream begins with a bracket. An error in one sample does not affect the others.
type source struct {
	r     *bufio.Reader
	buf   []byte // bytes of the sample; reused
	line  int    // first line of the sample
	lines int    // complete lines read so far
	begun bool
	list  bool
	n     int  // elements so far
	ended bool // the end of the list was read
}

// next returns the bytes of the next sample. They are valid until the next call.
func (s *source) next() ([]byte, error) {
	if !s.begun {
		s.begun = true
		if err := s.begin(); err != nil {
			return nil, err
		}
	}
	if s.list {
		return s.nextElement()
	}
	return s.nextLine()
}

// begin detects whether the stream is a list or lines.
func (s *source) begin() error {
	if mark, _ := s.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = s.r.Discard(len(mark))
	}
	c, err := s.space()
	if err == nil {
		s.list = c == '['
	}
	if err != nil || s.list {
		return err
	}
	return s.r.UnreadByte()
}

// place returns the position of a sample for its id. The element number of a list does not change when the list is
// reformatted.
func (s *source) place() string {
	if s.list {
		return fmt.Sprintf("item-%d", s.n)
	}
	return fmt.Sprintf("line-%d", s.line)
}

// element returns the position of the sample for errors.
func (s *source) element() string {
	if s.list && !s.ended {
		return fmt.Sprintf("element %d: ", s.n)
	}
	return ""
}

// space returns the first byte that is not white space. At the end the error is io.EOF.
func (s *source) space() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			s.lines++
		case ' ', '\t', '\r':
		default:
			return c, nil
		}
	}
}

// nextLine returns the next line that is not blank.
func (s *source) nextLine() ([]byte, error) {
	if _, err := s.space(); err != nil {
		return nil, err
	}
	if err := s.r.UnreadByte(); err != nil {
		return nil, err
	}
	s.buf, s.line = s.buf[:0], s.lines+1
	for size := 0; ; {
		part, err := s.r.ReadSlice('\n')
		if size += len(part); size <= maxSample {
			s.buf = append(room.For(s.buf, len(part), maxSample), part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && err != io.EOF:
			return nil, err
		}
		s.lines++
		if size > maxSample {
			return nil, errLong
		}
		return s.buf, nil
	}
}

// nextElement returns the next element of a list. It accepts missing and additional commas, so that no sample is
// lost.
func (s *source) nextElement() ([]byte, error) {
	c, err := s.space()
	for err == nil && c == ',' && !s.ended {
		c, err = s.space()
	}
	s.line = s.lines + 1
	switch {
	case err == io.EOF && !s.ended:
		s.ended = true
		return nil, errCut
	case err != nil:
		return nil, err
	case s.ended:
		if _, err := io.Copy(io.Discard, s.r); err != nil {
			return nil, err
		}
		return nil, errMore
	case c == ']':
		s.ended = true
		return s.nextElement()
	}
	s.n++
	return s.value(c)
}

// value returns the bytes of the value that begins with c. It keeps nothing of a value that is too long.
func (s *source) value(c byte) ([]byte, error) {
	s.buf = s.buf[:0]
	var size, depth int
	var quoted, escaped bool
	for {
		if size++; size <= maxSample {
			s.buf = append(room.For(s.buf, 1, maxSample), c)
		}
		if c == '\n' {
			s.lines++
		}
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth <= 0 && !quoted && (c == '"' || c == '}' || c == ']' || s.separated()) {
			break
		}
		var err error
		if c, err = s.r.ReadByte(); err == io.EOF {
			if s.ended = true; size > maxSample {
				return nil, errLong
			}
			return nil, errCut
		} else if err != nil {
			return nil, err
		}
	}
	if size > maxSample {
		return nil, errLong
	}
	return s.buf, nil
}

// separated reports whether a number or a literal ends here. These have no end mark.
func (s *source) separated() bool {
	next, err := s.r.Peek(1)
	return err != nil || next[0] == ',' || next[0] == ']'
}

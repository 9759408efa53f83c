package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"debrief/cmd/internal/room"
	"debrief/events"
)

// Reader reads tasks one by one as they come, a line or an element of a list at a time, each within MaxSample. It
// remembers the ids of the tasks that it has read: one that comes again is a Problem, since a sample counts once.
type Reader struct {
	src  source
	o    Options
	seen map[events.ID]int // line of the task, by the hash of its id
	err  error             // that ended it
}

// NewReader is a reader of a file or of a pipe. It is an error when the options are.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Reader{src: source{r: bufio.NewReaderSize(r, 64<<10)}, o: o, seen: map[events.ID]int{}}, nil
}

// Next is the next task. A *Problem is a sample that could not be read, and the next call goes on behind it. At the end
// the error is io.EOF itself; any other one ends the reading.
func (r *Reader) Next() (events.Task, error) {
	if r.err == nil && r.o.MaxSamples > 0 && len(r.seen) == r.o.MaxSamples {
		r.err = io.EOF
	}
	if r.err != nil {
		return events.Task{}, r.err
	}
	raw, err := r.src.next()
	bad := func(err error) (events.Task, error) {
		return events.Task{}, &Problem{r.src.line, r.src.element() + briefly(err.Error())}
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
		return bad(fmt.Errorf("id %q: is that of line %d already", t.ID, first))
	}
	r.seen[id] = r.src.line
	return t, nil
}

// fault is what is wrong with the bytes of one sample, or between two.
type fault string

func (f fault) Error() string { return string(f) }

const (
	errLong = fault("is longer than 16 MiB")
	errCut  = fault("the list ends in the middle, it seems cut off")
	errMore = fault("something follows behind the end of the list")
)

// source cuts a stream into the bytes of samples, without understanding them: by lines, or, where it begins with a
// bracket, by the elements of a list. It gets past whatever is wrong within one.
type source struct {
	r     *bufio.Reader
	buf   []byte // of the sample; reused
	line  int    // that the sample begins in
	lines int    // read in full so far
	begun bool
	list  bool
	n     int  // elements so far
	ended bool // the list was
}

// next is the bytes of the next sample, valid until the next call.
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

// begin tells a list from lines.
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

// place names where the sample stands, for an id: lines shift when a list is formatted anew, elements do not.
func (s *source) place() string {
	if s.list {
		return fmt.Sprintf("item-%d", s.n)
	}
	return fmt.Sprintf("line-%d", s.line)
}

// element names the sample within its line.
func (s *source) element() string {
	if s.list && !s.ended {
		return fmt.Sprintf("element %d: ", s.n)
	}
	return ""
}

// space is the first byte that is not white space. At the end the error is io.EOF itself.
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

// nextLine is the next line that is not blank.
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
		if size += len(part); size <= MaxSample {
			s.buf = append(room.For(s.buf, len(part), MaxSample), part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && err != io.EOF:
			return nil, err
		}
		s.lines++
		if size > MaxSample {
			return nil, errLong
		}
		return s.buf, nil
	}
}

// nextElement is the next element of a list. How elements are told apart is not looked at closely: a comma too many or
// too few costs nobody a sample.
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

// value is the bytes of the value that begins with c. Of one that is too long nothing is kept.
func (s *source) value(c byte) ([]byte, error) {
	s.buf = s.buf[:0]
	var size, depth int
	var quoted, escaped bool
	for {
		if size++; size <= MaxSample {
			s.buf = append(room.For(s.buf, 1, MaxSample), c)
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
			if s.ended = true; size > MaxSample {
				return nil, errLong
			}
			return nil, errCut
		} else if err != nil {
			return nil, err
		}
	}
	if size > MaxSample {
		return nil, errLong
	}
	return s.buf, nil
}

// separated reports whether a number or a word ends here: nothing in it says so.
func (s *source) separated() bool {
	next, err := s.r.Peek(1)
	return err != nil || next[0] == ',' || next[0] == ']'
}

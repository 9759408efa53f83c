package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"debrief/cmd/internal/room"
)

// errTooLarge is returned when a value is longer than the limit. The scanner then stands behind it.
var errTooLarge = errors.New("is too large")

// scanner cuts a stream of JSON into values without understanding them. Unlike a json.Decoder it gets past a value
// that is too large or malformed inside, as long as its quotes and brackets close, so that one bad run costs one run.
type scanner struct {
	r   *bufio.Reader
	buf []byte // the last value; reused
}

// peek is the next byte that is not white space. At the end the error is io.EOF itself.
func (s *scanner) peek() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, s.r.UnreadByte()
		}
	}
}

func (s *scanner) skip() { s.r.Discard(1) }

// more steps over what stands between two elements of a list and says whether there is another one.
func (s *scanner) more(first bool) (bool, error) {
	c, err := s.peek()
	switch {
	case err != nil:
		return false, ended(err)
	case c == ']':
		s.skip()
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, fmt.Errorf(`got %q before it, want "," or "]"`, c)
	}
	s.skip()
	if c, err = s.peek(); err == nil && c == ']' {
		return false, errors.New(`got "]" after a comma, want an element`)
	}
	return true, ended(err)
}

// end is an error unless nothing but white space is left.
func (s *scanner) end() error {
	c, err := s.peek()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("got %q behind the last bracket, want the end of the file", c)
	}
	return err
}

// value is the bytes of the next value, valid until the next call. Of one longer than the limit nothing is kept.
func (s *scanner) value(limit int) ([]byte, error) {
	s.buf = s.buf[:0]
	var size, depth int
	var quoted, escaped bool
	for {
		c, err := s.r.ReadByte()
		if err != nil && size > limit {
			return nil, s.tooLarge(size, limit)
		}
		if err != nil {
			return nil, ended(err)
		}
		if depth == 0 && !quoted && size > 0 && (c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t') {
			s.r.UnreadByte() // a number or a word ends before what follows it
			break
		}
		if size++; size <= limit {
			s.buf = append(room.For(s.buf, 1, limit), c)
		}
		switch {
		case escaped:
			escaped = false
			continue
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		default:
			continue
		}
		if depth <= 0 && !quoted {
			break
		}
	}
	if size > limit {
		return nil, s.tooLarge(size, limit)
	}
	return s.buf, nil
}

func (s *scanner) tooLarge(size, limit int) error {
	s.buf = s.buf[:0]
	return fmt.Errorf("%w: %d bytes, want at most %d", errTooLarge, size, limit)
}

// ended tells a file that was cut off from one that cannot be read.
func ended(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the file ends in the middle, it seems cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// lines cuts a stream into lines.
type lines struct {
	r     *bufio.Reader
	limit int
	n     int    // of the line that was read last, from 1
	buf   []byte // that line, where it is longer than the reader's buffer; reused
}

func newLines(r io.Reader, limit int) *lines {
	l := &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
	if mark, _ := l.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		l.r.Discard(len(mark))
	}
	return l
}

// peek is the first byte that is not white space.
func (l *lines) peek() (byte, error) {
	for {
		c, err := l.r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case c == '\n':
			l.n++
		case c != ' ' && c != '\r' && c != '\t':
			return c, l.r.UnreadByte()
		}
	}
}

// next is the next line without the white space around it, valid until the next call. Of one longer than the limit
// nothing is kept, and the error is errTooLarge. At the end the error is io.EOF itself.
func (l *lines) next() ([]byte, error) {
	const large = 1 << 20
	if cap(l.buf) > large {
		l.buf = nil // one large line is no reason to keep its room
	}
	l.buf = l.buf[:0]
	l.n++
	for size := 0; ; {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		switch {
		case err == nil && size == len(part):
			return l.trim(part, size)
		case err != nil && err != bufio.ErrBufferFull && err != io.EOF:
			return nil, err
		case err == io.EOF && size == 0:
			return nil, io.EOF
		}
		if size <= l.limit {
			l.buf = append(room.For(l.buf, len(part), l.limit), part...)
		}
		if err != bufio.ErrBufferFull {
			return l.trim(l.buf, size)
		}
	}
}

func (l *lines) trim(line []byte, size int) ([]byte, error) {
	if size > l.limit {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", errTooLarge, size, l.limit)
	}
	return bytes.TrimSpace(line), nil
}

// unfinishedObject reports whether a line is the first of an object that goes on: one that was torn off most often ends
// within a text, where JSON has no new line.
func unfinishedObject(line []byte) bool {
	depth, quoted, escaped := 0, false, false
	for _, c := range line {
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
	}
	return len(line) > 0 && line[0] == '{' && depth > 0 && !quoted
}

// withoutJunk is the object at the end of a line that begins with something else, nil where there is none. A writer that
// was killed, or two at once, leave such lines.
func withoutJunk(line []byte) []byte {
	if i := bytes.IndexByte(line, '{'); i > 0 && json.Valid(line[i:]) {
		return line[i:]
	}
	return nil
}

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

// errTooLarge is returned if a value is longer than the limit. The scanner can continue after the value.
var errTooLarge = errors.New("too large")

// scanner splits a stream of JSON into values without decoding them. Unlike a json.Decoder it can continue after a value
// that is too large or malformed, if its quotes and brackets are balanced. So one invalid run does not end the reading.
type scanner struct {
	r   *bufio.Reader
	buf []byte // the last value; reused
}

// peek returns the next byte that is not white space, without consuming it. At the end of the file it returns io.EOF,
// not wrapped.
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

// hasNext consumes the separator before the next element of a list and reports whether there is another element.
func (s *scanner) hasNext(first bool) (bool, error) {
	c, err := s.peek()
	switch {
	case err != nil:
		return false, truncated(err)
	case c == ']':
		s.skip()
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, fmt.Errorf(`unexpected %q before the element, want "," or "]"`, c)
	}
	s.skip()
	if c, err = s.peek(); err == nil && c == ']' {
		return false, errors.New(`unexpected "]" after a comma, want an element`)
	}
	return true, truncated(err)
}

// end returns an error if the rest of the file is more than white space.
func (s *scanner) end() error {
	c, err := s.peek()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("unexpected %q after the last bracket, want the end of the file", c)
	}
	return err
}

// value returns the bytes of the next value, valid until the next call. It skips a value that is longer than the limit and
// returns errTooLarge.
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
			return nil, truncated(err)
		}
		if depth == 0 && !quoted && size > 0 && (c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t') {
			s.r.UnreadByte() // the byte after a number, true, false or null is not part of it
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
	return fmt.Errorf("%w: %d bytes, limit %d", errTooLarge, size, limit)
}

// truncated replaces io.EOF by an error that reports a truncated file. It returns other errors unchanged.
func truncated(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the file is truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// lines splits a stream into lines.
type lines struct {
	r     *bufio.Reader
	limit int
	n     int    // number of the last line, from 1
	buf   []byte // the last line if it is longer than the buffer of r; reused
}

func newLines(r io.Reader, limit int) *lines {
	l := &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
	if mark, _ := l.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		l.r.Discard(len(mark))
	}
	return l
}

// peek returns the first byte that is not white space, without consuming it.
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

// next returns the next line without surrounding white space, valid until the next call. It skips a line that is longer than
// the limit and returns errTooLarge. At the end of the file it returns io.EOF, not wrapped.
func (l *lines) next() ([]byte, error) {
	const large = 1 << 20
	if cap(l.buf) > large {
		l.buf = nil // release the memory of a large line
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
		return nil, fmt.Errorf("%w: %d bytes, limit %d", errTooLarge, size, l.limit)
	}
	return bytes.TrimSpace(line), nil
}

// isPartialObject reports whether a line is the first line of an object over several lines. A truncated line mostly ends
// inside a string; JSON strings contain no line breaks, so such a line is not the beginning of a longer object.
func isPartialObject(line []byte) bool {
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

// trimJunk returns the valid JSON object at the end of a line that begins with other bytes, else nil. A killed writer, or
// two concurrent writers, leave such lines.
func trimJunk(line []byte) []byte {
	if i := bytes.IndexByte(line, '{'); i > 0 && json.Valid(line[i:]) {
		return line[i:]
	}
	return nil
}

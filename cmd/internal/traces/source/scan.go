package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is returned if a value is longer than the limit. The scanner can continue after the value.
var ErrTooLarge = errors.New("too large")

// Scanner splits a stream of JSON into values without decoding them. Unlike a json.Decoder it can continue after a value
// that is too large or malformed, if its quotes and brackets are balanced. So one invalid run does not end the reading.
type Scanner struct {
	r     *bufio.Reader
	buf   []byte // the last value; reused
	Lines int    // line breaks before the next byte
}

// Peek returns the next byte that is not white space, without consuming it. At the end of the file it returns io.EOF,
// not wrapped.
func (s *Scanner) Peek() (byte, error) { return peek(s.r, &s.Lines) }

// peek skips white space and returns the next byte without consuming it. It counts the line breaks.
func peek(r *bufio.Reader, lines *int) (byte, error) {
	for {
		c, err := r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case c == '\n':
			*lines++
		case c != ' ' && c != '\r' && c != '\t':
			return c, r.UnreadByte()
		}
	}
}

// Skip consumes the next byte. Call Peek first.
func (s *Scanner) Skip() { s.r.Discard(1) }

// HasNext consumes the separator before the next element of a list and reports whether there is another element.
func (s *Scanner) HasNext(first bool) (bool, error) {
	c, err := s.Peek()
	switch {
	case err != nil:
		return false, truncated(err)
	case c == ']':
		s.Skip()
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, fmt.Errorf(`unexpected %q before the element, want "," or "]"`, c)
	}
	s.Skip()
	if c, err = s.Peek(); err == nil && c == ']' {
		return false, errors.New(`unexpected "]" after a comma, want an element`)
	}
	return true, truncated(err)
}

// NextDocument returns an error if the next byte is not the beginning of another list or object. Files that were
// concatenated have several.
func (l *Lines) NextDocument() error {
	c, err := l.Peek()
	switch {
	case err == io.EOF, err == nil && (c == '[' || c == '{'):
		return nil
	case err == nil:
		return fmt.Errorf("unexpected %q after the last bracket, want the end of the file", c)
	}
	return err
}

// Value returns the bytes of the next value, valid until the next call. It skips a value that is longer than the limit and
// returns ErrTooLarge.
func (s *Scanner) Value(limit int) ([]byte, error) {
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
			s.buf = append(withRoom(s.buf, 1, limit), c)
		}
		if c == '\n' {
			s.Lines++
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

func (s *Scanner) tooLarge(size, limit int) error {
	s.buf = s.buf[:0]
	return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, size, limit)
}

// truncated replaces io.EOF by an error that reports a truncated file. It returns other errors unchanged.
func truncated(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the file is truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Lines splits a stream into lines.
type Lines struct {
	r     *bufio.Reader
	limit int
	N     int // number of the last line, from 1
	// KeepSpace keeps white space around a line, except its line break.
	KeepSpace bool
	buf       []byte // the last line if it is longer than the buffer of r; reused
}

// NewLines returns the lines of r. A line longer than limit bytes is skipped and reported as ErrTooLarge.
func NewLines(r io.Reader, limit int) *Lines {
	l := &Lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
	if mark, _ := l.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		l.r.Discard(len(mark))
	}
	return l
}

// Scanner returns a scanner of the rest of the stream. It counts line breaks from N on.
func (l *Lines) Scanner() *Scanner { return &Scanner{r: l.r, Lines: l.N} }

// Unread puts the last line back, and returns a scanner of the stream from that line on.
func (l *Lines) Unread(line []byte) *Scanner {
	l.r = bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(line)), l.r))
	return l.Scanner()
}

// Peek returns the first byte that is not white space, without consuming it.
func (l *Lines) Peek() (byte, error) { return peek(l.r, &l.N) }

// Next returns the next line without surrounding white space, valid until the next call. It skips a line that is longer than
// the limit and returns ErrTooLarge. At the end of the file it returns io.EOF, not wrapped.
func (l *Lines) Next() ([]byte, error) {
	const large = 1 << 20
	if cap(l.buf) > large {
		l.buf = nil // release the memory of a large line
	}
	l.buf = l.buf[:0]
	l.N++
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
			l.buf = append(withRoom(l.buf, len(part), l.limit), part...)
		}
		if err != bufio.ErrBufferFull {
			return l.trim(l.buf, size)
		}
	}
}

func (l *Lines) trim(line []byte, size int) ([]byte, error) {
	if size > l.limit {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, size, l.limit)
	}
	if l.KeepSpace {
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
	return bytes.TrimSpace(line), nil
}

// IsPartialObject reports whether a line is the first line of an object over several lines. A truncated line mostly ends
// inside a string; JSON strings contain no line breaks, so such a line is not the beginning of a longer object.
func IsPartialObject(line []byte) bool {
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	d := newDecoder(line)
	for {
		if _, err := d.ReadToken(); err != nil {
			rest := bytes.TrimLeft(d.UnreadBuffer(), ",: \t\r\n")
			return errors.Is(err, io.ErrUnexpectedEOF) && (len(rest) == 0 || rest[0] != '"')
		}
	}
}

// TrimJunk returns the valid JSON object at the end of a line that begins with other bytes, else nil. A killed writer, or
// two concurrent writers, leave such lines.
func TrimJunk(line []byte) []byte {
	if i := bytes.IndexByte(line, '{'); i > 0 && Valid(line[i:]) {
		return line[i:]
	}
	return nil
}

// SplitObjects returns the objects of a line that consists of several, else nil.
func SplitObjects(line []byte) (list [][]byte) {
	d := newDecoder(line)
	for {
		v, err := d.ReadValue()
		switch {
		case err == io.EOF && len(list) > 1:
			return list
		case err != nil || v.Kind() != '{':
			return nil
		}
		list = append(list, valueBefore(line, d, len(v)))
	}
}

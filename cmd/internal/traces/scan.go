package traces

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// errTooLarge is returned when a value is longer than the limit. The scanner then stands behind it.
var errTooLarge = errors.New("is too large")

// scanner cuts a stream of JSON into values without understanding them. Unlike a json.Decoder it gets past a value
// that is too large or malformed inside, as long as its quotes and brackets close, so that one bad run costs one run.
type scanner struct {
	r   *bufio.Reader
	buf []byte // the last value; reused
}

func newScanner(r io.Reader) *scanner {
	s := &scanner{r: bufio.NewReaderSize(r, 64<<10)}
	if mark, _ := s.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		s.r.Discard(len(mark))
	}
	return s
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
		if err != nil {
			return nil, ended(err)
		}
		if depth == 0 && !quoted && size > 0 && (c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t') {
			s.r.UnreadByte() // a number or a word ends before what follows it
			break
		}
		if size++; size <= limit {
			s.buf = append(s.buf, c)
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
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", errTooLarge, size, limit)
	}
	return s.buf, nil
}

// ended tells a file that was cut off from one that cannot be read.
func ended(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the file ends in the middle, it seems cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}

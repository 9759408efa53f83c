package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is a JSON value of a file. A row of a table is an object of texts.
type Value struct {
	Raw    []byte  // valid until the next value
	At     Problem // its place
	InList bool    // of a container, whose header IsList had
	IsRow  bool    // of a table
	Repair string  // the repair that made the value readable, or ""
	Err    error   // the reason why the value is unreadable, or nil; reading continues with the next one
}

// Problem is a place in a file, and the reason why it is listed.
type Problem struct {
	Line   int // line number from 1; 0 in a JSON list
	Index  int // index of the element in a JSON list, from 0
	Reason string
}

// Where returns the position in the file, for example "line 3" or "element 2".
func (p Problem) Where() string {
	if p.Line > 0 {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("element %d", p.Index)
}

func (p Problem) String() string { return p.Where() + ": " + p.Reason }

// ErrTooLarge is returned for a value that is longer than the limit. Reading continues after it.
var ErrTooLarge = errors.New("too large")

// Values reads the values of a text: a table, JSON Lines, or lists and objects over several lines, one after the other.
type Values struct {
	// IsList reports whether a list of objects in an object, a container, holds values of the file. Header is an object with the
	// members before the list.
	IsList func(name string, header []byte) bool
	// Columns has groups of names. A table has a column of each group.
	Columns [][]string

	r     *bufio.Reader
	under *rewinder // the source of r
	limit int
	lines int     // line breaks before the next byte
	buf   []byte  // the last value or line; reused
	taken *[]byte // gets the bytes that are read, unless it is nil
}

// NewValues returns the values of r. A value longer than limit bytes is skipped and reported as ErrTooLarge.
func NewValues(r io.Reader, limit int) *Values {
	v := &Values{under: &rewinder{Reader: r}, limit: limit, IsList: func(string, []byte) bool { return false }}
	v.r = bufio.NewReaderSize(v.under, bufferSize)
	if mark, _ := v.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = v.r.Discard(len(mark))
	}
	return v
}

// Each calls fn for each value. An error of fn ends it.
func (v *Values) Each(fn func(*Value) error) error {
	at := func(value *Value) error {
		if err := fn(value); err != nil {
			return fmt.Errorf("%s: %w", value.At.Where(), err)
		}
		return nil
	}
	for first := true; ; first = false {
		c, err := v.peek()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
		case c == '[':
			v.skip()
			err = v.readList(false, at)
		case c == '{':
			err = v.readObject(at)
		case first:
			err = v.readLines(at)
		default:
			err = fmt.Errorf("unexpected %q after the last bracket, want the end of the file", c)
		}
		if err != nil {
			return err
		}
	}
}

// readList reads the elements of a list behind its opening bracket.
func (v *Values) readList(inObject bool, fn func(*Value) error) error {
	for i := 0; ; i++ {
		hasNext, err := v.hasNext(i == 0)
		if err == nil && !hasNext {
			return nil
		}
		var raw []byte
		if err == nil {
			raw, err = v.value()
		}
		if err != nil && !errors.Is(err, ErrTooLarge) {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if err := fn(&Value{Raw: raw, At: Problem{Index: i}, InList: inObject, Err: err}); err != nil {
			return err
		}
	}
}

// readObject reads an object: a container, an object over several lines, or the first one of JSON Lines.
func (v *Values) readObject(fn func(*Value) error) error {
	at := Problem{Line: v.lines + 1}
	raw, atList := v.members()
	line, _, isLong := bytes.Cut(raw, []byte("\n"))
	_, err := v.r.Peek(1)
	isLong = (isLong || err == io.EOF) && isPartialObject(bytes.TrimSpace(line))
	switch {
	case atList:
		if err := v.readList(true, fn); err != nil {
			return err
		}
		return v.footer()
	case isLong && raw[len(raw)-1] == '}' && jsontext.Value(raw).IsValid(lenient...):
		return fn(&Value{Raw: raw, At: at})
	}
	v.unread(raw, at.Line-1)
	if !isLong {
		return v.readLines(fn)
	}
	raw, err = v.value()
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return err
	}
	return fn(&Value{Raw: raw, At: at, Err: err})
}

// members reads an object up to a list of values in it, or up to its end or the first error. It returns the bytes that it read.
func (v *Values) members() (raw []byte, atList bool) {
	v.taken = &raw
	defer func() { v.taken = nil }()
	v.skip()
	end := len(raw)
	for len(raw) <= v.limit {
		name := v.member(':')
		if name == nil {
			break
		}
		c, err := v.peek()
		if err != nil {
			break
		}
		if c == '[' && v.isObjectNext() {
			header := append(bytes.Clone(raw[:end]), '}')
			if text, _ := jsontext.AppendUnquote(nil, name); v.IsList(string(text), WithoutNaN(header)) {
				v.skip()
				return raw, true
			}
		}
		if _, err = v.value(); err != nil {
			break
		}
		end = len(raw)
		if c, err = v.peek(); err != nil {
			break
		}
		if v.skip(); c != ',' {
			break
		}
	}
	return raw, false
}

// member reads a name and the mark behind it. It returns nil at other bytes.
func (v *Values) member(mark byte) (name []byte) {
	if c, err := v.peek(); err != nil || c != '"' {
		return nil
	}
	raw, err := v.value()
	if err != nil {
		return nil
	}
	name = bytes.Clone(raw)
	if c, err := v.peek(); err != nil || c != mark {
		return nil
	}
	v.skip()
	return name
}

// isObjectNext reports whether a list begins with an object.
func (v *Values) isObjectNext() bool {
	data, _ := v.r.Peek(v.r.Size())
	return bytes.HasPrefix(bytes.TrimSpace(data[1:]), []byte("{"))
}

// unread puts bytes back. Lines is the number of line breaks before them. It keeps no other copy of them: they can be as large as a run.
func (v *Values) unread(raw []byte, lines int) {
	buffered, _ := v.r.Peek(v.r.Buffered())
	v.under.again = append([][]byte{raw, bytes.Clone(buffered)}, v.under.again...)
	v.lines = lines
	v.buf = nil
	v.r.Reset(v.under)
}

// rewinder reads bytes again.
type rewinder struct {
	io.Reader
	again [][]byte
}

// Read implements io.Reader.
func (r *rewinder) Read(p []byte) (int, error) {
	for len(r.again) > 0 && len(r.again[0]) == 0 {
		r.again = r.again[1:]
	}
	if len(r.again) == 0 {
		return r.Reader.Read(p)
	}
	n := copy(p, r.again[0])
	r.again[0] = r.again[0][n:]
	return n, nil
}

// readByte reads a byte, and keeps it if members are read.
func (v *Values) readByte() (byte, error) {
	c, err := v.r.ReadByte()
	if err != nil || v.taken == nil {
		return c, err
	}
	if *v.taken = append(withRoom(*v.taken, 1, v.limit), c); len(*v.taken) > v.limit {
		return 0, ErrTooLarge
	}
	return c, nil
}

func (v *Values) unreadByte() {
	_ = v.r.UnreadByte()
	if v.taken != nil {
		*v.taken = (*v.taken)[:len(*v.taken)-1]
	}
}

// skip consumes the byte that peek returned.
func (v *Values) skip() { _, _ = v.readByte() }

// peek skips white space and returns the next byte without consuming it. At the end of the file it returns io.EOF, not wrapped.
func (v *Values) peek() (byte, error) {
	for {
		c, err := v.readByte()
		switch {
		case err != nil:
			return 0, err
		case c == '\n':
			v.lines++
		case c != ' ' && c != '\r' && c != '\t':
			v.unreadByte()
			return c, nil
		}
	}
}

// hasNext consumes the separator before the next element of a list and reports whether there is another element.
func (v *Values) hasNext(first bool) (bool, error) {
	c, err := v.peek()
	switch {
	case err != nil:
		return false, truncated(err)
	case c == ']':
		v.skip()
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, fmt.Errorf(`unexpected %q before the element, want "," or "]"`, c)
	}
	v.skip()
	if c, err = v.peek(); err == nil && c == ']' {
		return false, errors.New(`unexpected "]" after a comma, want an element`)
	}
	return true, truncated(err)
}

// footer skips the members after the list of a container, and the closing brace.
func (v *Values) footer() error {
	for {
		c, err := v.peek()
		if err != nil {
			return truncated(err)
		}
		if v.skip(); c == '}' {
			return nil
		}
		if c != ',' {
			return errors.New(`unexpected data after the list, want "," or "}"`)
		}
		name := v.member(':')
		if _, err = v.peek(); err == nil && name == nil {
			return errors.New("invalid field after the list")
		}
		if err == nil {
			_, err = v.value()
		}
		if err != nil && !errors.Is(err, ErrTooLarge) {
			return truncated(err)
		}
	}
}

// value returns the bytes of the next value, valid until the next call. It needs no valid JSON: unlike a decoder it can continue after
// a value that is too large or malformed, if its quotes and brackets are balanced. So one invalid run does not end the reading.
func (v *Values) value() ([]byte, error) {
	v.buf = v.buf[:0]
	start := 0
	if v.taken != nil { // the bytes are kept there
		start = len(*v.taken)
	}
	size, depth := 0, 0
	quoted, escaped := false, false
	for done := false; !done; {
		c, err := v.readByte()
		if err != nil && size > v.limit {
			break
		}
		if err != nil {
			return nil, truncated(err)
		}
		if depth == 0 && !quoted && size > 0 && strings.IndexByte(",]} \n\r\t", c) >= 0 {
			v.unreadByte() // the byte after a number, true, false or null is not part of it
			break
		}
		if size++; size <= v.limit && v.taken == nil {
			v.buf = append(withRoom(v.buf, 1, v.limit), c)
		}
		if c == '\n' {
			v.lines++
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
			done = !quoted && depth == 0
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			done = depth <= 0
		}
	}
	if size > v.limit {
		return nil, tooLarge(size, v.limit)
	}
	if v.taken != nil {
		return (*v.taken)[start:], nil
	}
	return v.buf, nil
}

func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, size, limit)
}

// truncated replaces io.EOF by an error that reports a truncated file. It returns other errors unchanged.
func truncated(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the file is truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// withRoom returns buf with room for at least n more bytes. It doubles the capacity up to limit, or further if n requires
// it. Append alone grows large buffers by a quarter, and leaves about four times the size of a long line as garbage.
func withRoom(buf []byte, n, limit int) []byte {
	need := len(buf) + n
	if need <= cap(buf) {
		return buf
	}
	grown := make([]byte, len(buf), max(need, min(2*cap(buf), limit)))
	copy(grown, buf)
	return grown
}

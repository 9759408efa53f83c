package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is a JSON value of a file. A row of a table is an object of texts.
type Value struct {
	Raw    []byte // valid until the next value
	At     Place
	InList bool  // the value is an element of a list that Values.IsList accepted
	IsRow  bool  // the value is a row of a table
	Err    error // the reason why the value is unreadable, or nil; reading continues with the next one
	// Invalid is the number of invalid characters. The JSON decoder replaces them by U+FFFD, as the conversion from UTF-16 does.
	Invalid int
}

// invalidIn returns the number of invalid characters in a text.
func invalidIn(text []byte) (n int) {
	if utf8.Valid(text) && !bytes.Contains(text, []byte("\uFFFD")) {
		return 0
	}
	for _, r := range string(text) {
		if r == utf8.RuneError {
			n++
		}
	}
	return n
}

// Place is the position of a value in a file.
type Place struct {
	Line  int // line number from 1; 0 in a JSON list
	Index int // index of the element in a JSON list, from 0
}

// Where returns the position, for example "line 3" or "element 2".
func (p Place) Where() string {
	if p.Line > 0 {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("element %d", p.Index)
}

// Problem is a place in a file, and the reason why it is listed.
type Problem struct {
	Place
	Reason string
}

func (p Problem) String() string { return p.Where() + ": " + p.Reason }

// ErrTooLarge is returned for a value that is longer than the limit. Reading continues after it.
var ErrTooLarge = errors.New("too large")

// Values reads the values of a text: a table, JSON Lines, or lists and objects over several lines, one after the other.
type Values struct {
	// IsList reports whether the elements of a list in an object are values of the file. Such an object is a container, and its list is
	// read element by element. name is that of the list; header is an object with the members before it.
	IsList func(name string, header []byte) bool
	// Columns has groups of names. A text is a table if its first line has a column of each group. Without groups no text is a table.
	Columns [][]string

	r     *bufio.Reader
	limit int    // maximum size of a value in bytes
	lines int    // number of line breaks before the next byte
	buf   []byte // the last value or line; reused
}

// NewValues returns the values of r. A value longer than limit bytes is skipped and reported as ErrTooLarge.
func NewValues(r io.Reader, limit int) *Values {
	v := &Values{r: bufio.NewReaderSize(r, bufferSize), limit: limit, IsList: func(string, []byte) bool { return false }}
	if mark, _ := v.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = v.r.Discard(len(mark))
	}
	return v
}

// Each calls fn for each value. It ends with the first error of fn, and with an error after which it cannot find the next value.
func (v *Values) Each(fn func(*Value) error) error {
	emit := func(value *Value) error {
		value.Invalid += invalidIn(value.Raw)
		if err := fn(value); err != nil {
			return fmt.Errorf("%s: %w", value.At.Where(), err)
		}
		return nil
	}
	for first := true; ; first = false {
		c, err := v.peek()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case c == '[':
			_, _ = v.r.Discard(1)
			err = v.readList(false, emit)
		case c == '{':
			err = v.readObject(emit)
		case first:
			err = v.readLines(emit)
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
		if err == nil {
			_, err = v.scan(0, nil)
		}
		if err != nil && !errors.Is(err, ErrTooLarge) {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if err := fn(&Value{Raw: v.buf, At: Place{Index: i}, InList: inObject, Err: err}); err != nil {
			return err
		}
	}
}

// readObject reads an object: a container, an object over several lines, or the first one of JSON Lines. In the last case it reads the
// other lines too.
func (v *Values) readObject(fn func(*Value) error) error {
	at := Place{Line: v.lines + 1}
	atList, err := v.scan(0, v.IsList)
	isLine := v.lines+1 == at.Line // the object ends on the line on which it begins
	switch {
	case atList:
		if err := v.readList(true, fn); err != nil {
			return err
		}
		return v.footer()
	case errors.Is(err, errTorn):
		isLine, err = true, nil // fn gets the beginning of the line, and finds that its JSON is invalid
	case err != nil && !errors.Is(err, ErrTooLarge):
		return err
	}
	if err := fn(&Value{Raw: v.buf, At: at, Err: err}); err != nil {
		return err
	}
	if !isLine {
		return nil
	}
	return v.readLines(fn)
}

// peek skips white space and returns the next byte without consuming it. At the end of the file it returns io.EOF.
func (v *Values) peek() (byte, error) {
	for {
		c, err := v.r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case c == '\n':
			v.lines++
		case c != ' ' && c != '\r' && c != '\t':
			return c, v.r.UnreadByte()
		}
	}
}

// hasNext consumes the separator before the next element of a list and reports whether there is another element.
func (v *Values) hasNext(first bool) (bool, error) {
	c, err := v.peek()
	switch {
	case err != nil:
		return false, truncatedError(err)
	case c == ']':
		_, err = v.r.Discard(1)
		return false, err
	case first:
		return true, nil
	case c != ',':
		return false, fmt.Errorf(`unexpected %q before the element, want "," or "]"`, c)
	}
	_, _ = v.r.Discard(1)
	c, err = v.peek()
	if err == nil && c == ']' {
		return false, errors.New(`unexpected "]" after a comma, want an element`)
	}
	return true, truncatedError(err)
}

// footer skips the members after the list of a container, and the closing brace.
func (v *Values) footer() error {
	c, err := v.peek()
	switch {
	case err != nil:
		return truncatedError(err)
	case c != ',' && c != '}':
		return errors.New(`unexpected data after the list, want "," or "}"`)
	}
	_, err = v.scan(1, nil)
	if errors.Is(err, ErrTooLarge) {
		return nil
	}
	if err != nil {
		return err
	}
	withoutElements := append([]byte(`{"list":[]`), WithoutNaN(v.buf)...)
	if !jsontext.Value(withoutElements).IsValid(lenient...) {
		return errors.New("invalid field after the list")
	}
	return nil
}

// errTorn is returned for a line of JSON Lines whose end is missing.
var errTorn = errors.New("invalid JSON: unexpected end of the line")

// scan reads the next value into buf. depth is the number of its brackets that were opened before; with 0, scan reads a whole value.
//
// The value need not be valid JSON: scan only counts brackets outside strings. So, unlike a decoder, it can continue after a value that is too
// large or malformed, and one invalid run does not end the reading.
//
// If isList accepts a list in an object, scan stops behind the opening bracket of the list and returns true. Nil accepts none.
func (v *Values) scan(depth int, isList func(name string, header []byte) bool) (atList bool, err error) {
	v.buf = v.buf[:0]
	size, firstLine := 0, v.lines
	nameStart := 0                  // index in buf of the last string at depth 1; before the value of a member, that is its name
	quoted, escaped := false, false // the next byte is in a string, or behind a backslash in a string
	for done := false; !done; {
		c, err := v.r.ReadByte()
		if err != nil && size > v.limit { // the file ends in a value that is too large: report its size
			break
		}
		if err != nil {
			return false, truncatedError(err)
		}
		isAfterScalar := depth == 0 && !quoted && size > 0 && strings.IndexByte(",]} \n\r\t", c) >= 0
		if isAfterScalar { // a number, true, false or null has no end of its own
			_ = v.r.UnreadByte()
			break
		}
		size++
		if size <= v.limit {
			v.buf = append(v.buf, c)
		}
		if c == '\n' {
			// Only readObject passes isList. Its object may be the first of JSON Lines: then its line is torn if it is not the beginning of a value.
			isFirstLine := isList != nil && v.lines == firstLine
			isTorn := isFirstLine && size <= v.limit && !isPartial(v.buf)
			v.lines++
			if quoted || isTorn { // JSON has no line breaks in strings
				return false, v.torn()
			}
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
			if quoted && depth == 1 {
				nameStart = len(v.buf) - 1
			}
			done = !quoted && depth == 0
		case quoted: // brackets in a string do not count
		case c == '[' && depth == 1 && isList != nil && size <= v.limit && v.isObjectNext():
			name, header := v.container(nameStart)
			if isList(name, header) {
				return true, nil
			}
			depth++
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			done = depth <= 0
		}
	}
	if size > v.limit {
		return false, tooLarge(size, v.limit)
	}
	return false, nil
}

// torn returns the error for a line that ends in the middle of a value: errTorn, or the error for a truncated file if the file ends there.
func (v *Values) torn() error {
	if _, err := v.r.Peek(1); errors.Is(err, io.EOF) {
		return truncatedError(err)
	}
	return errTorn
}

// isObjectNext reports whether the next byte other than white space begins an object.
func (v *Values) isObjectNext() bool {
	data, _ := v.r.Peek(v.r.Size())
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))
}

// container describes the list whose opening bracket scan has just read: its name, and an object with the members before it. The name begins
// at nameStart in buf.
func (v *Values) container(nameStart int) (name string, header []byte) {
	text, _ := jsontext.AppendUnquote(nil, v.buf[nameStart:bytes.LastIndexByte(v.buf, '"')+1])
	header = bytes.Clone(bytes.TrimRight(v.buf[:nameStart], ", \t\r\n"))
	return string(text), WithoutNaN(append(header, '}'))
}

// isPartial reports whether a text is the beginning of a JSON value.
func isPartial(text []byte) bool {
	d := newDecoder(text)
	for {
		if _, err := d.ReadToken(); err != nil {
			return errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// tooLarge returns the error for a value of a size.
func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, size, limit)
}

// truncatedError replaces io.EOF by an error that reports a truncated file. It returns other errors unchanged.
func truncatedError(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the file is truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

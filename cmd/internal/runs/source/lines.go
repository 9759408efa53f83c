package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
)

// readLines reads JSON Lines, or a table if the first line is the header of one.
func (v *Values) readLines(fn func(*Value) error) error {
	for first := true; ; first = false {
		line, err := v.line() // a line that is too large becomes a value with the error
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, ErrTooLarge):
			return err
		}
		line = bytes.TrimSuffix(bytes.TrimSpace(line), []byte("\uFFFD")) // half a character at the end of UTF-16
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))                  // byte order mark: files may be concatenated
		if first && err == nil && len(line) > 0 {
			t := newTable(line)
			if t.hasColumns(v.Columns) {
				return v.readRows(t, fn)
			}
			err = t.missing(v.Columns) // nil unless the line is a header
		}
		if len(line) == 0 && err == nil {
			continue
		}
		if err := fn(&Value{Raw: line, At: Place{Line: v.lines}, Err: err}); err != nil {
			return err
		}
	}
}

// line returns the next line, valid until the next call. It skips a line that is longer than the limit and returns ErrTooLarge.
// At the end of the file it returns io.EOF.
func (v *Values) line() ([]byte, error) {
	const large = 1 << 20
	if cap(v.buf) > large {
		v.buf = nil // release the memory of a large line
	}
	v.buf = v.buf[:0]
	v.lines++
	for size := 0; ; {
		part, err := v.r.ReadSlice('\n')
		size += len(part)
		isContinued, isLast := errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF)
		switch {
		case err == nil && size == len(part) && size <= v.limit: // the whole line is in the buffer of r
			return part, nil
		case isLast && size == 0:
			return nil, io.EOF
		case err != nil && !isContinued && !isLast:
			return nil, err
		}
		if size <= v.limit {
			v.buf = append(v.buf, part...)
		}
		if isContinued {
			continue
		}
		if size > v.limit {
			return nil, tooLarge(size, v.limit)
		}
		return v.buf, nil
	}
}

// lenient are the options for recorded JSON: recorders write invalid UTF-8 and duplicate names.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// newDecoder returns a lenient decoder.
func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), lenient...)
}

// stringOrNaN matches the numbers of Python that JSON does not have, and strings, in which such words stay.
var stringOrNaN = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b`)

// WithoutNaN replaces each NaN and Infinity in JSON of Python by an empty string and spaces, so that the length stays.
func WithoutNaN(raw []byte) []byte {
	if !bytes.Contains(raw, []byte("NaN")) && !bytes.Contains(raw, []byte("Infinity")) {
		return raw
	}
	return stringOrNaN.ReplaceAllFunc(raw, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return append([]byte(`""`), bytes.Repeat([]byte(" "), len(token)-2)...)
	})
}

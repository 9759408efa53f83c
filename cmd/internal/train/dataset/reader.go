package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"debrief/events"
	"debrief/playbook/text"
)

// Reader reads tasks one by one from a stream. A duplicate id is a SampleError.
type Reader struct {
	o     Options
	src   *bufio.Reader
	list  *json.Decoder     // of the elements if the stream begins with a bracket, else nil
	unit  string            // "line" or "element"; empty before the first sample
	n     int               // lines or elements so far
	seen  map[events.ID]int // the line or element of each task, by the hash of the task's id
	ended error             // the result of all further calls; nil while there may be more samples
}

// NewReader returns a reader of a file or a pipe. It returns an error for invalid options.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Reader{o: o, src: bufio.NewReaderSize(r, 64<<10), seen: map[events.ID]int{}}, nil
}

// Next returns the next task. A *SampleError is an invalid sample; the next call continues after it. The error is io.EOF
// at the end; any other error ends the reading.
func (r *Reader) Next() (events.Task, error) {
	if r.ended == nil && r.o.MaxSamples > 0 && len(r.seen) == r.o.MaxSamples {
		r.ended = io.EOF
	}
	if r.ended != nil {
		return events.Task{}, r.ended
	}
	raw, err := r.next()
	if err != nil && !errors.As(err, new(fault)) {
		r.ended = err
		return events.Task{}, err
	}
	var t events.Task
	if err == nil {
		t, err = r.task(raw)
	}
	if err != nil {
		return events.Task{}, &SampleError{Place: fmt.Sprintf("%s %d", r.unit, r.n), Reason: text.Line(err.Error(), 300)}
	}
	return t, nil
}

// task returns the task for the bytes of a sample.
func (r *Reader) task(raw []byte) (events.Task, error) {
	t, err := r.o.task(raw, fmt.Sprintf("%s-%d", r.unit, r.n))
	if err != nil {
		return t, err
	}
	id := events.Hash(t.ID)
	if first, ok := r.seen[id]; ok {
		return t, fmt.Errorf("id %q: duplicate of %s %d", t.ID, r.unit, first)
	}
	r.seen[id] = r.n
	return t, nil
}

// fault is an error in the bytes of a sample. It does not end the reading.
type fault string

func (f fault) Error() string { return string(f) }

// next returns the bytes of the next sample: a line that is not blank, or an element of a list.
func (r *Reader) next() ([]byte, error) {
	if r.unit == "" {
		if err := r.begin(); err != nil {
			return nil, err
		}
	}
	if r.list != nil {
		return r.nextElement()
	}
	for {
		line, err := r.nextLine()
		if err != nil || len(bytes.Trim(line, " \t\r\n")) > 0 {
			return line, err
		}
	}
}

// begin skips a byte order mark and white space, and the bracket of a list. It sets unit, and list if the stream is a list.
func (r *Reader) begin() error {
	if mark, err := r.src.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		_, _ = r.src.Discard(3)
	}
	r.unit = "line"
	for {
		c, err := r.src.Peek(1)
		if err != nil {
			return err
		}
		switch c[0] {
		case '\n':
			r.n++
		case ' ', '\t', '\r':
		case '[':
			r.unit = "element"
			r.n = 0
			r.list = json.NewDecoder(r.src)
			_, err := r.list.Token()
			return err
		default:
			return nil
		}
		_, _ = r.src.Discard(1)
	}
}

// nextElement returns the next element of a list. It is the last one after a syntax error.
func (r *Reader) nextElement() ([]byte, error) {
	r.n++
	var raw json.RawMessage
	more := r.list.More()
	err := r.list.Decode(&raw)
	var syntax *json.SyntaxError
	switch {
	case !more && err != nil: // the end of the list, or of the file
		r.ended = io.EOF
		if _, err := r.list.Token(); err != nil {
			return nil, fault("the list ends here: " + err.Error())
		}
		if r.list.More() {
			return nil, fault("unexpected data after the end of the list")
		}
		return nil, io.EOF
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		r.ended = io.EOF
		return nil, fault("the list cannot be read from here: " + err.Error())
	case err == nil && len(raw) > maxSample:
		return nil, errLong
	}
	return raw, err
}

const errLong = fault("longer than 16 MiB")

// nextLine returns the next line, or errLong after it has read a line that is too long.
func (r *Reader) nextLine() ([]byte, error) {
	r.n++
	var line []byte
	size := 0
	for {
		part, err := r.src.ReadSlice('\n')
		size += len(part)
		if size <= maxSample {
			line = append(line, part...)
		}
		isLastLine := err == io.EOF && size > 0 // a line without a line break
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // the line goes on
		case err != nil && !isLastLine:
			return nil, err
		case size > maxSample:
			return nil, errLong
		default:
			return line, nil
		}
	}
}

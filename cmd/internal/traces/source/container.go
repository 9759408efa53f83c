package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// containers lists the fields that hold a list of runs or of parts of runs. An object with such a list is read element by
// element, so that it can have any size. If the value is true, the other fields of the object must match no format.
var containers = map[string]bool{
	"simulations":   false, // tau2
	"resourceSpans": false, // OTLP
	"data":          true,  // pages of the Langfuse and LangSmith APIs
	"items":         true,
	"runs":          true,
	"traces":        true,
	"spans":         true,
}

// maxHeader is the maximum size of the fields before the list of a container, in bytes.
const maxHeader = 4 << 20

// errNoContainer is returned when the file does not begin with a container.
var errNoContainer = errors.New("not a container")

// OpenContainer reads the beginning of an object up to the first element of a list of runs. It returns the fields before the
// list, and a scanner of the elements. A list that may be a part of a run counts only if isRun returns false for the fields
// before it. If the object has no such list, OpenContainer consumes nothing and returns an error.
func (l *Lines) OpenContainer(isRun func(*Object) bool) (header *Object, s *Scanner, err error) {
	limit := min(l.limit, maxHeader)
	rec := &recorder{r: l.r, limit: limit + 64<<10}
	s = &Scanner{r: bufio.NewReaderSize(rec, 64<<10)}
	if header, err = s.header(limit, isRun); err != nil {
		l.r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rec.data), l.r), 64<<10)
		return nil, nil, err
	}
	rec.done()
	l.r = s.r
	return header, s, nil
}

// recorder records the bytes that it reads, up to a limit. After the limit it returns errNoContainer.
type recorder struct {
	r     io.Reader
	data  []byte
	limit int // 0 after done
}

func (c *recorder) Read(p []byte) (int, error) {
	if c.limit == 0 {
		return c.r.Read(p)
	}
	if n := c.limit - len(c.data); n <= 0 {
		return 0, errNoContainer
	} else if len(p) > n {
		p = p[:n]
	}
	n, err := c.r.Read(p)
	c.data = append(withRoom(c.data, n, c.limit), p[:n]...)
	return n, err
}

// done ends the recording.
func (c *recorder) done() { c.limit, c.data = 0, nil }

// header reads the fields of an object until the list of a container starts.
func (s *Scanner) header(limit int, isRun func(*Object) bool) (*Object, error) {
	if c, err := s.Peek(); err != nil || c != '{' {
		return nil, errNoContainer
	}
	s.Skip()
	header := &Object{}
	for {
		name, err := s.fieldName()
		if err != nil {
			return nil, errNoContainer
		}
		c, err := s.Peek()
		if err != nil {
			return nil, errNoContainer
		}
		if strict, known := containers[name]; known && c == '[' && (!strict || s.holdsObjects() && !isRun(header)) {
			return header, nil
		}
		value, err := s.Value(limit)
		if err != nil {
			return nil, errNoContainer
		}
		header.Fields = append(header.Fields, Field{name, json.RawMessage(bytes.Clone(value))})
		if c, err = s.Peek(); err != nil || c != ',' {
			return nil, errNoContainer
		}
		s.Skip()
	}
}

// holdsObjects reports whether the first element of the next list is an object, without consuming it.
func (s *Scanner) holdsObjects() bool {
	const most = 1000 // bytes of white space
	start, _ := s.r.Peek(most)
	start = bytes.TrimSpace(start)
	return len(start) > 1 && start[0] == '[' && bytes.HasPrefix(bytes.TrimSpace(start[1:]), []byte("{"))
}

// fieldName reads the name of a field and the colon.
func (s *Scanner) fieldName() (name string, err error) {
	const maxName = 1000
	if c, err := s.Peek(); err != nil || c != '"' {
		return "", errNoContainer
	}
	raw, err := s.Value(maxName)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(raw, &name); err != nil {
		return "", err
	}
	if c, err := s.Peek(); err != nil || c != ':' {
		return "", errNoContainer
	}
	s.Skip()
	return name, nil
}

// Footer skips the fields after the list of a container, and the closing brace.
func (s *Scanner) Footer(limit int) error {
	for {
		c, err := s.Peek()
		if err != nil {
			return truncated(err)
		}
		s.Skip()
		if c == '}' {
			return nil
		}
		if c != ',' {
			return errors.New(`unexpected data after the list, want "," or "}"`)
		}
		if _, err := s.fieldName(); err != nil {
			return errors.New("invalid field after the list")
		}
		if _, err := s.Peek(); err != nil {
			return truncated(err)
		}
		if _, err := s.Value(limit); err != nil && !errors.Is(err, ErrTooLarge) {
			return err
		}
	}
}

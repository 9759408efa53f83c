package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// frame is one message of the NATS text protocol: a line and, for some messages, a body. It is parsed for inspection and
// forwarded unchanged.
type frame struct {
	line []byte // with its line break
	body []byte // header and payload, with the final line break; nil without a body

	subject, reply string
	header         int // length of the header in the body
}

// readFrame reads the next message of a connection, in either direction.
func readFrame(r *bufio.Reader) (*frame, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	f := &frame{line: line}
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return f, nil
	}
	sizes := 1
	from := 1 // index of the subject
	switch strings.ToUpper(words[0]) {
	case "PUB":
	case "HPUB", "HMSG":
		sizes = 2
	case "MSG":
	default:
		return f, nil // CONNECT, INFO, SUB, PING and the like
	}
	if len(words) < from+1+sizes {
		return nil, fmt.Errorf("protocol line %q: too short", line)
	}
	numbers := words[len(words)-sizes:]
	f.subject = words[from]
	rest := words[from+1 : len(words)-sizes]
	if strings.HasSuffix(strings.ToUpper(words[0]), "MSG") {
		rest = rest[1:] // the subscription
	}
	if len(rest) > 0 {
		f.reply = rest[0]
	}
	if sizes == 2 {
		if f.header, err = strconv.Atoi(numbers[0]); err != nil {
			return nil, fmt.Errorf("protocol line %q: %w", line, err)
		}
	}
	size, err := strconv.Atoi(numbers[sizes-1])
	if err != nil {
		return nil, fmt.Errorf("protocol line %q: %w", line, err)
	}
	f.body = make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(r, f.body)
	return f, err
}

// payload returns the body without header and line break.
func (f *frame) payload() []byte {
	if f.body == nil {
		return nil
	}
	return f.body[f.header : len(f.body)-len("\r\n")]
}

// get returns the value of a header, or "".
func (f *frame) get(name string) string {
	_, rest, ok := bytes.Cut(f.body[:f.header], []byte("\r\n"+name+":"))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return string(bytes.TrimSpace(value))
}

// hide renames a header to a name of the same length that the server ignores.
func (f *frame) hide(name string) {
	key := []byte("\r\n" + name + ":")
	if at := bytes.Index(f.body[:f.header], key); at >= 0 {
		f.body[at+len("\r\n")] = 'X'
	}
}

// writeTo forwards the message.
func (f *frame) writeTo(w *bufio.Writer) error {
	if _, err := w.Write(f.line); err != nil {
		return err
	}
	_, err := w.Write(f.body)
	return err
}

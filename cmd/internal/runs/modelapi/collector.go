package modelapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
)

// maxBody bounds the bytes of a response that a Collector reads.
const maxBody = 16 << 20

// Collector reads a copy of a response. Its Write never fails and never blocks. It reads at most 16 MiB of a body. Of a
// stream it keeps only the texts, the calls and the current event. It is not safe for concurrent use.
//
// A response is a stream of events or a single JSON object, and its first byte other than white space shows which. Write parses a stream event
// by event. Reply parses an object, and any response with gzip.
type Collector struct {
	api     API
	gzip    bool
	plain   bool          // the response is an object
	stream  *eventStream  // nil unless the response is a stream
	body    *bytes.Buffer // the bytes so far; nil for a stream
	size    int           // bytes so far
	problem string        // the reason why the response is unreadable, or ""
	ended   bool          // the stream has its end marker
	doc     Document
	parser  parser
}

// parser builds the reply of one API. A value that a method gets is valid until the method returns; the value of whole stays valid.
type parser interface {
	// event adds an event of a stream.
	event(name string, root Value)
	// whole adds a response without a stream.
	whole(root Value)
	// end records the end marker of a stream.
	end()
	// reply returns the reply to the bytes read so far.
	reply() *Reply
}

// NewCollector returns a Collector for a response with the given content encoding. It reads JSON and event streams, plain or with
// gzip, and tells them apart by their first byte: some servers label one as the other. The reply to any other response has no text
// and an error.
func NewCollector(api API, contentEncoding string) *Collector {
	c := &Collector{api: api, parser: newParser(api), body: new(bytes.Buffer)}
	switch encoding := strings.ToLower(strings.TrimSpace(contentEncoding)); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		c.gzip = true
	default:
		c.fail(fmt.Sprintf("response has the unknown content encoding %.40q", encoding))
	}
	return c
}

// newParser returns the parser of an API.
func newParser(api API) parser {
	switch api {
	case Responses:
		return &responsesParser{}
	case Messages:
		return &messagesParser{}
	}
	return &chatParser{}
}

// Write adds bytes of the body. It returns len(p) and no error.
func (c *Collector) Write(p []byte) (int, error) {
	if c.problem != "" {
		return len(p), nil
	}
	c.size += len(p)
	if c.size > maxBody {
		c.fail(fmt.Sprintf("response is over %d bytes", maxBody))
		return len(p), nil
	}
	if c.stream != nil {
		c.stream.write(p)
		return len(p), nil
	}
	c.body.Write(p)
	first, ok := firstByte(p)
	if c.gzip || c.plain || !ok {
		return len(p), nil
	}
	switch first {
	case 'd', 'e', 'i', 'r', ':': // a line of a stream begins with data, event, id, retry or a colon
		c.stream = &eventStream{emit: c.event}
		c.stream.write(c.body.Bytes())
		c.body = nil
	default:
		c.plain = true
	}
	return len(p), nil
}

// firstByte returns the first byte that is neither white space nor part of a byte order mark, and whether there is one.
func firstByte(p []byte) (byte, bool) {
	for _, c := range p {
		if strings.IndexByte(" \t\r\n\xef\xbb\xbf", c) < 0 {
			return c, true
		}
	}
	return 0, false
}

// fail notes why the response is unreadable, and releases its memory.
func (c *Collector) fail(problem string) {
	*c = Collector{api: c.api, problem: problem}
}

// doneData is the last event of a stream of OpenAI.
const doneData = "[DONE]"

// event reads the data of an event. It ignores data that is not JSON.
func (c *Collector) event(name string, data []byte) {
	if string(bytes.TrimSpace(data)) == doneData {
		c.ended = true
		c.parser.end()
		return
	}
	root, err := c.doc.Parse(data)
	if err != nil {
		return
	}
	name = cmp.Or(root.Text("type"), name) // the data of each event of Anthropic and of the responses API names it, too
	c.parser.event(name, root)
	switch name {
	case "message_stop", "response.completed", "response.done", "response.incomplete", "response.failed", "response.cancelled":
		c.ended = true
	}
}

// Ended reports whether an event stream has its end marker: clients do not wait for bytes after it. It is false for streams with
// gzip, and for other responses.
func (c *Collector) Ended() bool { return c.ended }

// Reply returns the reply after the end of the body. If the response is incomplete or unreadable, Finish is FinishNone and Error has the
// reason.
func (c *Collector) Reply() *Reply {
	switch {
	case c.problem != "":
		return &Reply{Error: c.problem}
	case c.gzip:
		return c.unpack()
	case c.stream != nil:
		c.stream.close()
	default:
		root, err := c.doc.Parse(c.body.Bytes())
		if err != nil {
			return &Reply{Error: "read response: " + err.Error()}
		}
		c.parser.whole(root)
	}
	r := c.parser.reply()
	if r.Finish == FinishNone && r.Error == "" {
		r.Error = "response has no end"
	}
	return r
}

// unpack reads a body with gzip.
func (c *Collector) unpack() *Reply {
	zr, err := gzip.NewReader(c.body)
	if err != nil {
		return &Reply{Error: "read response: " + err.Error()}
	}
	inner := NewCollector(c.api, "")
	_, err = io.Copy(inner, io.LimitReader(zr, maxBody+1))
	r := inner.Reply()
	if err != nil && r.Finish == FinishNone { // the rest of the body is missing or damaged
		r.Error = "read response: " + err.Error()
	}
	return r
}

// eventStream splits server-sent events, whose bytes may be split anywhere.
type eventStream struct {
	emit func(name string, data []byte) // data is valid until it returns

	line    []byte // the beginning of an incomplete line
	started bool   // the first line is complete
	afterCR bool   // the last line ended with CR: if LF is next, it belongs to that end

	// The current event.
	name    string
	data    []byte
	hasData bool // there is a line with data, which may be empty
}

// write adds bytes of the stream.
func (s *eventStream) write(p []byte) {
	for len(p) > 0 {
		if s.afterCR {
			s.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		i := lineEnd(p)
		if i < 0 {
			s.line = append(s.line, p...)
			return
		}
		line := p[:i]
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line = s.line
		}
		s.endLine(line)
		s.line = s.line[:0]
		s.afterCR = p[i] == '\r'
		p = p[i+1:]
	}
}

// lineEnd returns the index of the first CR or LF, or -1. Two searches for one byte are faster than one for both.
func lineEnd(p []byte) int {
	lf := bytes.IndexByte(p, '\n')
	if lf >= 0 {
		p = p[:lf]
	}
	if cr := bytes.IndexByte(p, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// endLine handles a complete line.
func (s *eventStream) endLine(line []byte) {
	if !s.started {
		s.started = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if len(line) == 0 {
		s.endEvent()
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) { // a comment has an empty field
	case "event":
		s.name = string(value)
	case "data":
		if s.hasData {
			s.data = append(s.data, '\n')
		}
		s.data, s.hasData = append(s.data, value...), true
	}
}

// endEvent emits the current event, if it has data, and begins the next one.
func (s *eventStream) endEvent() {
	if s.hasData {
		s.emit(s.name, s.data)
	}
	s.name = ""
	s.data, s.hasData = s.data[:0], false
}

// close ends the last line and the last event, because some servers write no blank line behind the end marker. The data of an event that
// was cut is not valid JSON, so that the Collector ignores it.
func (s *eventStream) close() {
	if len(s.line) > 0 {
		s.endLine(s.line)
		s.line = s.line[:0]
	}
	s.endEvent()
}

package wire

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
type Collector struct {
	api     API
	stream  *eventStream  // of an event stream that is not compressed
	body    *bytes.Buffer // of all others
	gzip    bool
	isEvent bool
	size    int
	problem string // the reason why the response cannot be read
	ended   bool   // the stream has its end marker
	doc     document
	parser  parser
}

// parser builds the reply of one API.
type parser interface {
	// event adds an event of a stream. The name is that of the event line.
	event(name string, d *document)
	// whole adds a response without a stream.
	whole(d *document)
	// reply returns the reply to the bytes read so far.
	reply() *Reply
}

// NewCollector returns a Collector for a response with the given headers. It reads JSON and event streams, plain or with
// gzip. The reply to any other response has no text and an error.
func NewCollector(api API, contentType, contentEncoding string) *Collector {
	mediaType, _, _ := strings.Cut(contentType, ";")
	c := &Collector{api: api, isEvent: strings.EqualFold(strings.TrimSpace(mediaType), "text/event-stream"), parser: newParser(api)}
	switch encoding := strings.ToLower(strings.TrimSpace(contentEncoding)); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		c.gzip = true
	default:
		c.fail(fmt.Sprintf("response has the unknown content encoding %.40q", encoding))
	}
	if c.isEvent && !c.gzip {
		c.stream = &eventStream{emit: c.event}
	} else {
		c.body = new(bytes.Buffer)
	}
	return c
}

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
	if c.size += len(p); c.size > maxBody {
		c.fail(fmt.Sprintf("response is over %d bytes", maxBody))
		return len(p), nil
	}
	if c.stream != nil {
		c.stream.write(p)
	} else {
		c.body.Write(p)
	}
	return len(p), nil
}

// fail gives up the response and its memory.
func (c *Collector) fail(problem string) {
	*c = Collector{api: c.api, problem: problem}
}

// doneData is the last event of a stream of OpenAI.
const doneData = "[DONE]"

// event reads the data of an event. It ignores data that is not JSON.
func (c *Collector) event(name string, data []byte) {
	if c.doc.parse(data) != nil {
		c.ended = c.ended || string(data) == doneData
		return
	}
	c.parser.event(name, &c.doc)
	switch cmp.Or(c.doc.textAt(root, "type"), name) {
	case "message_stop", "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		c.ended = true
	}
}

// Ended reports whether an event stream has its end marker: clients do not wait for bytes after it. It is false for streams with
// gzip, and for other responses.
func (c *Collector) Ended() bool { return c.ended }

// Reply returns the reply after the end of the body. Without an end marker, Finish is FinishNone and Error has the reason.
func (c *Collector) Reply() *Reply {
	switch {
	case c.problem != "":
		return &Reply{Error: c.problem}
	case c.gzip:
		return c.unpack()
	case c.stream == nil:
		if err := c.doc.parse(c.body.Bytes()); err != nil {
			return &Reply{Error: "read response: " + err.Error()}
		}
		c.parser.whole(&c.doc)
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
	contentType := "application/json"
	if c.isEvent {
		contentType = "text/event-stream"
	}
	inner := NewCollector(c.api, contentType, "")
	_, err = io.Copy(inner, io.LimitReader(zr, maxBody+1))
	r := inner.Reply()
	if err != nil && !r.Complete() && r.Finish != FinishFailed {
		r.Error = "read response: " + err.Error()
	}
	return r
}

package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"debrief/events"
)

// ref is a reference of an AsyncAPI document.
type ref struct {
	Ref string `json:"$ref"`
}

// document is an AsyncAPI 3 document, with the fields that Debrief uses.
type document struct {
	AsyncAPI   string               `json:"asyncapi"`
	Info       info                 `json:"info"`
	Default    string               `json:"defaultContentType"`
	Channels   map[string]channel   `json:"channels"`
	Operations map[string]operation `json:"operations"`
	Components components           `json:"components"`

	types map[string]reflect.Type // of Components.Schemas
}

type info struct {
	Title       string            `json:"title"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	License     map[string]string `json:"license"`
}

type channel struct {
	Address     *string              `json:"address"` // null for replies: the request names it
	Description string               `json:"description,omitempty"`
	Parameters  map[string]parameter `json:"parameters,omitempty"`
	Messages    map[string]ref       `json:"messages"`
}

type parameter struct {
	Description string `json:"description"`
}

type operation struct {
	Action   string `json:"action"` // of Debrief: it sends or receives
	Channel  ref    `json:"channel"`
	Summary  string `json:"summary"`
	Messages []ref  `json:"messages"`
	Reply    *reply `json:"reply,omitempty"`
}

type reply struct {
	Address  *replyAddress `json:"address,omitempty"`
	Channel  ref           `json:"channel"`
	Messages []ref         `json:"messages"`
}

type replyAddress struct {
	Location    string `json:"location"`
	Description string `json:"description"`
}

type components struct {
	Messages map[string]message            `json:"messages"`
	Schemas  map[string]*jsonschema.Schema `json:"schemas"`
}

type message struct {
	Name        string             `json:"name"`
	Summary     string             `json:"summary"`
	ContentType string             `json:"contentType"`
	Headers     *jsonschema.Schema `json:"headers,omitempty"`
	Payload     *jsonschema.Schema `json:"payload,omitempty"`
	Examples    []messageExample   `json:"examples,omitempty"`
}

type messageExample struct {
	Headers map[string]string `json:"headers,omitempty"`
	Payload json.RawMessage   `json:"payload"`
}

// parameters describes the placeholders in subjects.
var parameters = map[string]string{
	"book": "The name of a playbook: 1 to 64 of the characters A-Z a-z 0-9 _ -.",
	"seq":  "The sequence of a delta in the stream of deltas.",
	"role": "generator, reflector or curator.",
	"code": "The reason as a code.",
	"id":   "The id of the dead letter.",
}

// placeholders finds the parameters of a subject.
var placeholders = regexp.MustCompile(`\.\{([a-z]+)\}`)

// replyChannel is the channel of all replies.
const replyChannel = "reply"

// AsyncAPI returns the AsyncAPI 3 document of all messages, as JSON. Actions are those of Debrief: it receives the messages
// of its clients.
func AsyncAPI() (json.RawMessage, error) {
	d := document{
		AsyncAPI: "3.0.0", Default: MessagePack,
		Info: info{
			Title: "Debrief", Version: strconv.Itoa(events.Schema) + ".0.0", License: map[string]string{"name": "Apache-2.0"},
			Description: "Messages on NATS. The subjects debrief.task, round, execution, feedback, reflection, edit, delta and dead belong to JetStream streams, which acknowledge each message on its " +
				"reply subject. The acknowledgement says only that the message is stored, also if no worker can decode it. The inbox for the result or the error is in the header " +
				events.HeaderReply + " of a task or an edit. A client that sets only the reply subject gets neither. All other subjects are plain requests.",
		},
		Channels:   map[string]channel{replyChannel: {Description: "The inbox that a request names.", Messages: map[string]ref{}}},
		Operations: map[string]operation{}, types: map[string]reflect.Type{},
		Components: components{Messages: map[string]message{}, Schemas: map[string]*jsonschema.Schema{}},
	}
	for _, m := range Messages() {
		d.addMessage(&m)
		if m.Subject != "" {
			d.addOperation(&m)
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the AsyncAPI document: %w", err)
	}
	return data, nil
}

// addMessage adds a message with the schemas of its types. A type has one schema for each encoding, because its names
// differ.
func (d *document) addMessage(m *Message) {
	b := newBuilder(m)
	b.refs = "#/components/schemas/"
	b.defs, b.names = d.Components.Schemas, d.types
	switch {
	case m.Required != nil && b.tag == "json":
		b.suffix = ".request"
	case m.Required != nil:
		b.suffix = ".client"
	case b.tag == "json":
		b.suffix = ".json"
	}
	c := message{Name: m.Name, Summary: m.Description, ContentType: m.Encoding, Headers: headers(m)}
	if m.payload != nil || m.Encoding == Text {
		c.Payload = b.root(m)
	}
	if m.Example != "" {
		e := messageExample{Payload: json.RawMessage(m.Example)}
		if slices.Contains(m.Headers, events.HeaderContentType) {
			e.Headers = map[string]string{events.HeaderContentType: m.Encoding, events.HeaderReply: "_INBOX.my-program.1"}
		}
		c.Examples = append(c.Examples, e)
	}
	d.Components.Messages[m.Name] = c
}

// headers returns the schema of the headers of a message.
func headers(m *Message) *jsonschema.Schema {
	if len(m.Headers) == 0 {
		return nil
	}
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, PropertyOrder: m.Headers}
	for _, name := range m.Headers {
		h := &jsonschema.Schema{Type: "string", Description: sentence(headerDocs[name])}
		switch name {
		case events.HeaderSchema:
			h.Pattern = "^[1-9][0-9]*$"
		case events.HeaderContentType:
			h.Examples = []any{m.Encoding}
		}
		s.Properties[name] = h
	}
	if m.Encoding == MessagePack && m.payload != nil {
		s.Required = []string{events.HeaderSchema}
	} else if m.Headers[0] == events.HeaderContentType {
		s.Required = []string{events.HeaderContentType}
	}
	return s
}

// headerDocs describes the headers.
var headerDocs = map[string]string{
	events.HeaderSchema:       "The version of the schema",
	events.HeaderTrace:        "The W3C trace context",
	events.HeaderRepeat:       "Set if the message may already have been published with another sequence",
	events.HeaderBlob:         "The SHA-256 of a large payload, which is the name of its object in the bucket " + events.BucketBlobs + ". The payload of the message is then empty",
	events.HeaderReply:        "The inbox for the result or the error. Without it the client gets only the acknowledgement of the stream, on the reply subject",
	events.HeaderReplyType:    "The media type of the reply, if it is not that of the message",
	events.HeaderContentType:  "The media type of the payload",
	events.HeaderHandle:       "The handle of the stored event that the reply carries",
	events.HeaderError:        "The reason of the failure",
	"Nats-Service-Error":      "The text of the error, on one line",
	"Nats-Service-Error-Code": "The status code of HTTP",
	"Retry-After":             "Seconds until the client should try again",
}

// addOperation adds the channel of a message and what Debrief does with it.
func (d *document) addOperation(m *Message) {
	name := strings.ReplaceAll(strings.TrimPrefix(placeholders.ReplaceAllString(m.Subject, ""), "debrief."), ".", "-")
	c, ok := d.Channels[name]
	if !ok {
		c = channel{Address: &m.Subject, Parameters: map[string]parameter{}, Messages: map[string]ref{}}
		for _, p := range placeholders.FindAllStringSubmatch(m.Subject, -1) {
			c.Parameters[p[1]] = parameter{parameters[p[1]]}
		}
	}
	c.Messages[m.Name] = ref{"#/components/messages/" + m.Name}
	d.Channels[name] = c
	o := operation{Action: "send", Channel: ref{"#/channels/" + name}, Summary: m.Description, Messages: []ref{{"#/channels/" + name + "/messages/" + m.Name}}}
	fromClients := []string{"task", "task-json", "edit", "feedback"}
	if len(m.Replies) > 0 || slices.Contains(fromClients, m.Name) {
		o.Action = "receive"
	}
	if len(m.Replies) > 0 {
		o.Reply = &reply{Channel: ref{"#/channels/" + replyChannel}}
		if slices.Contains(m.Headers, events.HeaderReply) {
			o.Reply.Address = &replyAddress{"$message.header#/" + events.HeaderReply, "An inbox: the subject begins with _INBOX."}
		}
		for _, r := range m.Replies {
			d.Channels[replyChannel].Messages[r] = ref{"#/components/messages/" + r}
			o.Reply.Messages = append(o.Reply.Messages, ref{"#/channels/" + replyChannel + "/messages/" + r})
		}
	}
	d.Operations[o.Action+"-"+m.Name] = o
}

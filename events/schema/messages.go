package schema

import (
	"reflect"
	"slices"

	"debrief/events"
	"debrief/events/liveness"
	"debrief/playbook"
)

// Encodings of payloads, as media types.
const (
	MessagePack = "application/msgpack"
	JSON        = events.ContentTypeJSON
	Text        = "text/plain"
)

// Message is a type of message with one encoding.
type Message struct {
	Name        string
	Subject     string // with {book} for the playbook; empty for a reply, which goes to an inbox
	Encoding    string
	Description string
	Strict      bool     // unknown fields are errors; else they are ignored
	Required    []string // fields that a client must set; nil for messages that Debrief writes
	Headers     []string // beside the payload
	Replies     []string // names of the messages that may reply
	Example     string   // a payload in JSON; each message that clients send in JSON has one

	payload reflect.Type
}

// Headers of all messages on streams, of messages that request a reply, and of error replies of the service.
var (
	streamHeaders  = []string{events.HeaderSchema, events.HeaderTrace, events.HeaderRepeat, events.HeaderBlob}
	requestHeaders = append(slices.Clone(streamHeaders), events.HeaderReply, events.HeaderReplyType)
	serviceErrors  = []string{"Nats-Service-Error", "Nats-Service-Error-Code", "Retry-After"}
)

// Messages returns all types of messages: those on streams, then requests, replies and announcements.
func Messages() []Message {
	book := playbook.Book("{book}")
	service := func(verb string) string { return events.ServiceSubject(verb, book, "") }
	return []Message{
		{
			Name: "task", Subject: events.KindTask.Subject(book), Encoding: MessagePack, payload: reflect.TypeFor[events.Task](), Required: []string{"run_id", "question"}, Headers: requestHeaders,
			Description: "A task for a Generator. The header Debrief-Reply requests the execution as a reply. A Reflector submits further rounds with previous_rounds, on debrief.round.{book}.{owner}.", Replies: []string{"execution", "failure"},
		},
		{
			Name: "task-json", Subject: events.KindTask.Subject(book), Encoding: JSON, payload: reflect.TypeFor[events.Task](), Strict: true, Required: []string{"run_id", "question"},
			Headers:     []string{events.HeaderContentType, events.HeaderReply, events.HeaderTrace, events.HeaderSchema},
			Description: "A task in JSON. The header Debrief-Reply requests the execution as a reply, in JSON.", Replies: []string{"execution-json", "failure-json"},
			Example: `{"run_id": "ticket-17", "question": "What is 6 x 7?", "target": "42", "evaluator": "numeric", "session": "desk-7"}`,
		},
		{
			Name: "execution", Subject: events.KindExecution.Subject(book), Encoding: MessagePack, payload: reflect.TypeFor[events.Execution](), Headers: append(slices.Clone(requestHeaders), events.HeaderHandle),
			Description: "A completed run of a task. As a reply it has the header Debrief-Handle.",
		},
		{
			Name: "execution-json", Encoding: JSON, payload: reflect.TypeFor[events.Execution](), Headers: []string{events.HeaderContentType, events.HeaderHandle},
			Description: "The reply to a task in JSON.",
		},
		{
			Name: "feedback", Subject: events.KindFeedback.Subject(book), Encoding: MessagePack, payload: reflect.TypeFor[events.Feedback](), Headers: streamHeaders,
			Description: "Feedback on an execution, from an operator's tool or the service.",
		},
		{
			Name: "reflection", Subject: events.KindReflection.Subject(book), Encoding: MessagePack, payload: reflect.TypeFor[events.Reflection](), Headers: streamHeaders,
			Description: "A Reflector's analysis of an execution.",
		},
		{
			Name: "edit", Subject: events.KindEdit.Subject(book), Encoding: MessagePack, payload: reflect.TypeFor[events.Edit](), Headers: requestHeaders,
			Description: "A change of a playbook by an operator. The header Debrief-Reply requests the decision.", Replies: []string{"edit-reply", "failure"},
		},
		{
			Name: "edit-reply", Encoding: MessagePack, payload: reflect.TypeFor[events.EditReply](), Headers: []string{events.HeaderSchema},
			Description: "The decision of the Curator on an edit.",
		},
		{
			Name: "delta", Subject: events.KindDelta.Subject(book), Encoding: MessagePack, payload: reflect.TypeFor[playbook.Delta](), Headers: []string{events.HeaderSchema},
			Description: "A committed change of a playbook. Only the Curator writes deltas.",
		},
		{
			Name: "redaction", Subject: events.KindRedaction.Subject(book) + ".{seq}", Encoding: MessagePack, payload: reflect.TypeFor[events.Redaction](), Headers: []string{events.HeaderSchema},
			Description: "A delta whose texts were erased. It takes the place of the delta with the sequence {seq}.",
		},
		{
			Name: "dead", Subject: "debrief.dead.{role}.{code}.{book}.{id}", Encoding: MessagePack, payload: reflect.TypeFor[events.DeadLetter](), Headers: streamHeaders,
			Description: "A message that a role could not process.",
		},
		{
			Name: "context-request", Subject: service(events.VerbContext), Encoding: JSON, payload: reflect.TypeFor[events.ContextRequest](), Strict: true, Required: []string{"query"},
			Description: "A request for the messages of a model call.", Replies: []string{"context-reply", "error-reply"},
			Example: `{"query": "Where is the atlas?", "session": "desk-7"}`,
		},
		{
			Name: "context-reply", Encoding: JSON, payload: reflect.TypeFor[events.ContextReply](),
			Description: "A context, ready for a model call.",
		},
		{
			Name: "report", Subject: service(events.VerbReport), Encoding: JSON, payload: reflect.TypeFor[events.Report](), Strict: true, Required: []string{},
			Description: "An agent's report of its run.", Replies: []string{"stored-reply", "error-reply"},
			Example: `{"run_id": "ticket-17", "question": "Where is the atlas?", "steps": [{"tool_calls": [
				{"tool": "catalogue", "arguments": "{\"title\": \"atlas\"}", "output": "Error: unknown field title", "outcome": "failure"},
				{"tool": "catalogue", "arguments": "{\"item\": \"atlas\"}", "output": "shelf 7", "outcome": "success"}]}],
				"answer": "Shelf 7.", "outcome": {"score": 1, "label": "success"}}`,
		},
		{
			Name: "feedback-request", Subject: service(events.VerbFeedback), Encoding: JSON, payload: reflect.TypeFor[events.FeedbackRequest](), Strict: true, Required: []string{"execution"},
			Description: "An agent's feedback on a run that it has reported.", Replies: []string{"stored-reply", "error-reply"},
			Example: `{"execution": "412-ab12cd34", "outcome": {"score": 0, "label": "failure", "feedback": "The atlas is on shelf 9."}}`,
		},
		{
			Name: "stored-reply", Encoding: JSON, payload: reflect.TypeFor[events.StoredReply](),
			Description: "The reply to a report or to feedback: it is stored.",
		},
		{
			Name: "error-reply", Encoding: JSON, payload: reflect.TypeFor[events.ErrorReply](), Headers: serviceErrors,
			Description: "The error reply to a request of an agent. The headers have the text and a status code of HTTP.",
		},
		{
			Name: "failure", Encoding: MessagePack, payload: nil, Headers: []string{events.HeaderError},
			Description: "The reply to a task or an edit that became a dead letter. The reason is in the header Debrief-Error, and the payload is empty.",
		},
		{
			Name: "failure-json", Encoding: JSON, payload: reflect.TypeFor[events.ErrorReply](), Headers: []string{events.HeaderContentType, events.HeaderError},
			Description: "The reply to a task in JSON that became a dead letter.",
		},
		{
			Name: "health-request", Subject: events.SubjectHealth, Encoding: JSON, payload: nil,
			Description: "A request for the health of all processes. Its payload is ignored. Each process replies.", Replies: []string{"health-report"},
		},
		{
			Name: "health-report", Encoding: JSON, payload: reflect.TypeFor[liveness.Report](),
			Description: "The health of one process.",
		},
		{
			Name: "head", Subject: events.HeadSubject(book), Encoding: Text, payload: nil,
			Description: "The Curator announces the version of a new view, as a decimal number. The message is not stored.",
		},
	}
}

// Find returns the message with a name.
func Find(name string) (Message, bool) {
	all := Messages()
	i := slices.IndexFunc(all, func(m Message) bool { return m.Name == name })
	if i < 0 {
		return Message{}, false
	}
	return all[i], true
}

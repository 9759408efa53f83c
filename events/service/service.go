// Package service is the interface for outside agents. It serves contexts and accepts reports and feedback: over
// NATS as a micro service (Serve), and one request at a time for other transports, such as HTTP (Handler). It
// decodes, limits and answers requests. The Backend builds contexts and stores reports.
//
// # Subjects and bodies
//
// Bodies are JSON with the fields of the types in package events. The book is a token of the subject.
//
//	subject                       request                 reply                 max. size of a request
//	debrief.api.context.<book>    events.ContextRequest   events.ContextReply   4 MiB
//	debrief.api.execution.<book>  events.Report           events.StoredReply   16 MiB
//	debrief.api.feedback.<book>   events.FeedbackRequest  events.StoredReply    1 MiB
//
// Requests on these subjects belong to the common owner. The gateway appends the owner of a token, as in
// debrief.api.context.<book>.<owner>. It sends the name of the token in the header Debrief-Token, and the scope review in
// Debrief-Scope. The users of agents have no right to the subjects with an owner, see 'debrief credentials'. Feedback on an execution
// of another owner is answered 404.
//
// A NATS server accepts messages up to its max_payload, by default 1 MB. HTTP (the API of the gateway) only has
// the limits above, so use HTTP for larger requests.
//
// The name of the micro service is debrief: "nats micro info debrief" shows it. The statistics of the client library count a request
// when the handler returns and not when the reply is sent, so Serve has an Observer. All instances share the requests as one queue group.
//
// The reply subject must be an inbox: it begins with _INBOX, or with the prefix that a server uses for a request
// from another account or cluster. A request with another reply subject is dropped. The service publishes the reply
// with its own permissions, which exceed the permissions of the client. With the reply subject debrief.delta.default, for
// example, a client could write to the log of a playbook.
//
// A report or feedback without a reply subject is stored, and no reply is sent.
//
// # Errors
//
// An error reply is an events.ErrorReply. Its text is also in the header Nats-Service-Error, and its code in
// Nats-Service-Error-Code. The codes are those of HTTP, on both transports:
//
//	400  the request is invalid; the text names the field
//	403  the outcome is a violation, or in the name of a judge, and the token lacks the scope review
//	404  unknown: the object does not exist or has expired
//	410  the run was erased
//	413  the request is over the limit, or the reply is over the server's max_payload
//	500  internal error; the log has the reason
//	503  unavailable: too many requests, a full store, or a dependency without connection. Retry-After is in seconds
//	504  no reply within ten seconds. The data may have been stored. It is safe to send a report again if it has a
//	     context_id or a run_id, and feedback if it has an id
//
// # Decoding
//
// A body is decoded by events.DecodeStrict: unknown and duplicate fields are errors that name the field. (Events on
// streams are different: unknown fields of MessagePack are ignored there, because a newer program may have written
// them.)
package service

import (
	"context"

	"debrief/events"
	"debrief/playbook"
)

// Name is the name of the micro service. Version is the semantic version of its requests and replies, not of the
// program.
const (
	Name    = "debrief"
	Version = "1.0.0"
)

// Backend processes the requests. Its errors are classified by methods: Invalid, NotFound or Unavailable returning
// true, RetryAfter, and the type *bus.FullError. The client receives the text of such an error. For
// any other error it receives a general text.
type Backend interface {
	Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error)
	// Report returns after the execution is stored.
	Report(ctx context.Context, r *events.Report) (*events.StoredReply, error)
	// Feedback returns after the feedback is stored.
	Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error)
}

// Leader is a Backend that knows the leading scores of playbooks: the score that counts if an outcome has several. If the book is empty,
// the book of the context counts.
type Leader interface {
	LeadingScore(ctx context.Context, caller events.Caller, b playbook.Book, contextID events.ID) (string, error)
}

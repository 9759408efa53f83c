// Package service serves contexts to agents that run outside, and takes what they report: over NATS as a micro service
// (Serve), and to whatever other door one request at a time (Handler). It knows how a request is read, bounded and
// answered, and nothing about how a context is put together: that is the Desk's.
//
// # Subjects and bodies
//
// Bodies are JSON, as the shapes of package events say. The book is the last token of the subject.
//
//	subject                  request                  reply                 at most
//	ace.api.context.<book>    events.ContextRequest    events.ContextReply     4 MiB
//	ace.api.execution.<book>  events.Report            events.Stored          16 MiB
//	ace.api.feedback.<book>   events.FeedbackRequest   events.Stored           1 MiB
//
// A server takes messages of up to its max_payload, 1 MB unless it is told otherwise. What is larger goes over HTTP
// (package cmd/internal/api), which has these limits alone.
//
// The micro service's name is debrief: "nats micro info debrief" lists it, "nats micro stats debrief" counts. The
// statistics that are ours are under data, because the client library counts a request when it has been taken and not
// when it has been answered. All instances share the work as one queue group.
//
// Replies go to inboxes: a reply subject begins with _INBOX, or with what a server puts there for a request that comes
// from another account or cluster. A request with any other is dropped, because the service would publish the reply
// with its own rights, which are more than the client's: with ace.delta.default for a reply subject a request would
// write to the log of a playbook.
//
// A report or feedback without a reply subject is taken, and nobody learns what became of it.
//
// # Refusals
//
// A refusal is an events.Refusal, with its text in the header Nats-Service-Error and its code in
// Nats-Service-Error-Code. The codes are those of HTTP, and the same over HTTP:
//
//	400  the request is wrong; the text names the field
//	404  what it is about does not exist, or no longer
//	413  the request is over the limit, or the reply is over the server's max_payload
//	500  a fault of ours; the log says which
//	503  not now: too many requests at once, a full store, something that cannot be reached. Retry-After has seconds
//	504  no answer within ten seconds. A report may have been stored: to send it again is safe where it has a
//	     context_id or a task_id, and feedback where it has an id
//
// # How bodies are read
//
// A field that does not exist is refused and named, and so is one that stands twice: requests are written by hand, and a
// typo should not be silence. (Events on streams are read the other way: there unknown fields are ignored, because they
// were written by a newer program.) Anything after the object is refused, and so is what is nested deeper than 64 or
// has more than 262,144 values. Bytes that are not UTF-8 are repaired, as U+FFFD: a tool's output that was cut in the
// middle of a character must not cost the report.
package service

import (
	"context"

	"debrief/events"
)

// Name is the service's name, and Version that of its requests and replies (semver), not of the program.
const (
	Name    = "debrief"
	Version = "1.0.0"
)

// Desk does the work. Its errors steer by behaviour: Invalid() or NotFound() true, Unavailable() true, RetryAfter, and
// *bus.FullError; their texts are sent to the client. Of any other error the client learns nothing.
type Desk interface {
	Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error)
	// Report returns when the execution is stored.
	Report(ctx context.Context, r *events.Report) (*events.Stored, error)
	// Feedback returns when it is stored.
	Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.Stored, error)
}

package events

import (
	"time"

	"debrief/events/chat"
	"debrief/playbook"
)

// Report describes an execution by an outside agent. It is the body of POST /api/v1/executions, and of a request on the
// subject of VerbReport.
type Report struct {
	Caller    Caller        `json:"-" redact:"-"`
	Book      playbook.Book `json:"book,omitempty"` // default: the book of the context, else DefaultBook
	ContextID ID            `json:"context_id,omitempty"`
	// RunID is the agent's id of the run. A report that is sent again with the same id counts once. The default is the id of
	// the context, else a random id.
	RunID string `json:"run_id,omitempty" redact:"id"`
	// Task is a label that groups attempts at the same task.
	Task      string              `json:"task,omitempty" redact:"id"`
	User      string              `json:"user,omitempty" redact:"id"` // see Task.User
	Session   string              `json:"session,omitempty" redact:"id"`
	Turn      int                 `json:"turn,omitempty"` // number of the run in its session, from 1; default: counted
	Question  string              `json:"question,omitempty"`
	Context   string              `json:"context,omitempty"`
	Steps     []Step              `json:"steps,omitempty"`
	Reasoning string              `json:"reasoning,omitempty"`
	Answer    string              `json:"answer,omitempty"`
	Agent     *Agent              `json:"agent,omitempty"` // system prompt and tools of the agent, for the Reflector
	Cited     []playbook.BulletID `json:"cited,omitempty"`
	Outcome   Outcome             `json:"outcome,omitzero"`
	Target    string              `json:"target,omitempty"`
	Purpose   Purpose             `json:"purpose,omitempty"`
	Model     string              `json:"model,omitempty"`
	Usage     chat.Usage          `json:"usage,omitzero"`
	Started   time.Time           `json:"started,omitzero"`
	Duration  time.Duration       `json:"duration_ns,omitempty"`
}

// FeedbackRequest records the outcome of an execution later. It is the body of POST /api/v1/feedback, and of a request
// on the subject of VerbFeedback.
type FeedbackRequest struct {
	Caller Caller        `json:"-" redact:"-"`
	Book   playbook.Book `json:"book,omitempty"`
	// ID is chosen by the client. Feedback of an owner on an execution that is sent again with the same id counts once. The
	// default is a random id.
	ID ID `json:"id,omitempty"`
	// Execution is the handle, or another id by which the gateway knows the run, such as the response id of a model call. It is not the id of a
	// context.
	Execution Handle  `json:"execution"`
	Outcome   Outcome `json:"outcome,omitzero"`
	Target    string  `json:"target,omitempty"`
}

// StoredReply is the reply to a report or to feedback.
type StoredReply struct {
	Handle    Handle   `json:"handle"`
	Execution Handle   `json:"execution,omitempty"` // the rated execution, if the feedback named it by another id
	Duplicate bool     `json:"duplicate,omitempty"` // it was stored before; Handle is the handle of the first copy
	Warnings  []string `json:"warnings,omitempty"`  // such as an unknown context
}

// ErrorReply is the body of an error reply.
type ErrorReply struct {
	Error string `json:"error"`
}

// DefaultBook is the playbook of requests that name none.
const DefaultBook = playbook.Book("default")

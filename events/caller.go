package events

import (
	"fmt"
	"strings"

	"debrief/playbook"
)

// Caller is the sender of a request to the service. The transport sets it, never the body. The zero value is the common owner:
// agents on NATS, and servers without tokens.
type Caller struct {
	Owner   string // id of the token
	Name    string // name of the token
	Reviews bool   // may rate the runs of all owners of the playbook
	// Uncontrolled leaves the request out of the control share: it gets advice as usual, and its run has no arm. Only a named token with the scope
	// operate may ask for it.
	Uncontrolled bool
}

// Headers of requests over NATS on the subject of a named owner. They are ignored on other subjects.
const (
	headerToken        = "Debrief-Token"   // name of the token
	headerScope        = "Debrief-Scope"   // scopeReview, if the token has it
	headerUncontrolled = "Debrief-Control" // ControlOff, if Uncontrolled is set
)

// The HTTP header HeaderControl with the value ControlOff leaves a request for a context, or a model call, out of the control share.
const (
	HeaderControl = "X-Debrief-Control"
	ControlOff    = "off"
)

const scopeReview = "review"

// Source returns the source of the caller's runs: SourceAgent, and for a named token SourceAgent/NAME.
func (c Caller) Source() string {
	if c.Name == "" {
		return SourceAgent
	}
	return SourceAgent + "/" + c.Name
}

// MayRate reports whether the caller may rate the runs of an owner.
func (c Caller) MayRate(owner string) bool { return c.Owner == owner || c.Reviews }

// Request returns the subject and headers for a request of the caller about a book.
func (c Caller) Request(verb string, b playbook.Book) (subject string, header map[string][]string) {
	header = map[string][]string{}
	if c.Owner == "" {
		return ServiceSubject(verb, b, ""), header
	}
	header[headerToken] = []string{c.Name}
	if c.Reviews {
		header[headerScope] = []string{scopeReview}
	}
	if c.Uncontrolled {
		header[headerUncontrolled] = []string{ControlOff}
	}
	return ServiceSubject(verb, b, c.Owner), header
}

// CallerOf returns the book and the caller of a request to the service. A subject without an owner means the common owner, whatever
// the headers are.
func CallerOf(subject string, header map[string][]string) (b playbook.Book, c Caller, err error) {
	tokens := strings.Split(subject, ".") // debrief.api.<verb>.<book>[.<owner>]
	if len(tokens) < 4 {
		return "", c, fmt.Errorf("subject %.160q: not a subject of a request", subject)
	}
	b = playbook.Book(tokens[3])
	c.Owner = OwnerOfSubject(subject)
	if c.Owner == "" {
		return b, c, nil
	}
	if values := header[headerToken]; len(values) == 1 {
		c.Name = values[0]
	}
	if values := header[headerScope]; len(values) == 1 {
		c.Reviews = values[0] == scopeReview
	}
	if values := header[headerUncontrolled]; len(values) == 1 {
		c.Uncontrolled = values[0] == ControlOff
	}
	return b, c, ValidateOwner(c.Owner)
}

package events

import (
	"errors"
	"fmt"
	"time"

	"debrief/playbook"
)

// DeadLetter is an event that a role gave up, with the reason and the original bytes.
type DeadLetter struct {
	envelope   `msgpack:"-"`
	Role       string              `msgpack:"role" json:"role" redact:"-"`
	Code       DeadCode            `msgpack:"code" json:"code" redact:"-"`
	Reason     string              `msgpack:"reason" json:"reason"`
	Deliveries int                 `msgpack:"deliveries" json:"deliveries"` // attempts at it; see package bus
	Stream     string              `msgpack:"stream" json:"stream" redact:"-"`
	Seq        uint64              `msgpack:"seq" json:"seq"`
	Subject    string              `msgpack:"subject" json:"subject" redact:"-"`
	Header     map[string][]string `msgpack:"header,omitempty" json:"header,omitempty"`
	Data       []byte              `msgpack:"data,omitempty" json:"data,omitempty"`
	Time       time.Time           `msgpack:"time" json:"time"`
}

// DeadCode is the reason of a dead letter, for programs. The list only grows.
type DeadCode string

// The codes of dead letters.
const (
	DeadAttempts    DeadCode = "attempts-exhausted" // each attempt ended with the death of its worker
	DeadError       DeadCode = "error"              // the last attempt failed
	DeadInvalid     DeadCode = "invalid"            // undecodable, invalid, or its payload is gone
	DeadNewerSchema DeadCode = "newer-schema"       // written by a newer program
	DeadUseless     DeadCode = "useless-output"     // the model's output was useless for it, and useful for others
	DeadUnavailable DeadCode = "model-unavailable"  // the model failed on it, and answered others
)

// token reports whether the code can be in a subject. A newer program may have codes that this one does not know.
func (c DeadCode) token() bool { return playbook.Book(c).Validate() == nil }

func (*DeadLetter) Kind() Kind { return KindDead }

// EventID is derived from the message that the letter is about: its stream, its sequence and its id, because a stream
// that was deleted and created again counts from 1.
func (d *DeadLetter) EventID() ID {
	return DeadID(d.Role, d.Stream, d.Seq, d.Header)
}

// DeadID is the id of the dead letter about a message of a stream.
func DeadID(role, stream string, seq uint64, header map[string][]string) ID {
	var id string
	if v := header["Nats-Msg-Id"]; len(v) > 0 {
		id = v[0]
	}
	return Hash("dead", role, stream, fmt.Sprint(seq), id)
}

// DeadIDSubject is the filter for the letter with an id, whatever its code.
func DeadIDSubject(role string, b playbook.Book, id ID) string { return deadSubject(role, "", b, id) }

func (d *DeadLetter) subject() string { return deadSubject(d.Role, d.Code, d.Book, d.EventID()) }

// Validate implements Event.
func (d *DeadLetter) Validate() error {
	if d.Role == "" || d.Subject == "" {
		return errors.New("role, subject: cannot be empty")
	}
	if playbook.Book(d.Role).Validate() != nil { // a book's name is a token too
		return fmt.Errorf("role: %.80q cannot be in a subject", d.Role)
	}
	if !d.Code.token() {
		return fmt.Errorf("code: %.80q is not a token of a subject", string(d.Code))
	}
	return nil
}

package events

import (
	"errors"
	"fmt"
	"time"

	"debrief/playbook"
)

// DeadLetter records a message that a role could not process: the reason and the original bytes.
type DeadLetter struct {
	Book     playbook.Book       `msgpack:"-" json:"book"` // in the subject, not in the payload
	Role     string              `msgpack:"role" json:"role" redact:"-"`
	Code     DeadCode            `msgpack:"code" json:"code" redact:"-"`
	Reason   string              `msgpack:"reason" json:"reason"`
	Attempts int                 `msgpack:"attempts" json:"attempts"` // attempts at the message; a hold does not count, see package bus
	Stream   string              `msgpack:"stream" json:"stream" redact:"-"`
	Seq      uint64              `msgpack:"seq" json:"seq"`
	Subject  string              `msgpack:"subject" json:"subject" redact:"-"`
	Header   map[string][]string `msgpack:"header,omitempty" json:"header,omitempty"`
	Data     []byte              `msgpack:"data,omitempty" json:"data,omitempty"`
	Time     time.Time           `msgpack:"time" json:"time"`
	// Shared is the run (Origin.Run) whose tasks share this letter, or empty for the letter of one message. The other fields describe the
	// newest of these tasks. The run submits all of them again itself.
	Shared string `msgpack:"shared,omitempty" json:"shared,omitempty" redact:"id"`
}

// DeadCode is the reason of a dead letter for programs. The values are stored, so they must not change.
type DeadCode string

// The codes of dead letters.
const (
	DeadAttempts    DeadCode = "attempts-exhausted" // the worker died in each attempt
	DeadError       DeadCode = "error"              // the last attempt failed
	DeadInvalid     DeadCode = "invalid"            // the message is undecodable or invalid, or its blob is missing
	DeadNewerSchema DeadCode = "newer-schema"       // written by a newer program
	DeadUseless     DeadCode = "useless-output"     // the model output was useless for this message, but useful for others
	DeadUnavailable DeadCode = "model-unavailable"  // the model failed for this message, but not for others
	DeadOtherModel  DeadCode = "other-model"        // the task requires another model than the Generator has
)

// isToken reports whether the code is a valid subject token. A newer program may have codes that this one does not
// know.
func (c DeadCode) isToken() bool { return playbook.Book(c).Validate() == nil }

func (*DeadLetter) Kind() Kind { return KindDead }

func (d *DeadLetter) InBook() playbook.Book   { return d.Book }
func (d *DeadLetter) setBook(b playbook.Book) { d.Book = b }

// EventID returns an id derived from the original message: its stream, sequence and id. Stream and sequence are not sufficient,
// because a stream that was deleted and created again starts at sequence 1. The id of a shared letter is derived from its run.
func (d *DeadLetter) EventID() ID {
	if d.Shared != "" {
		return Hash("dead", d.Role, d.Stream, string(d.Code), d.Shared)
	}
	return DeadID(d.Role, d.Stream, d.Seq, d.Header)
}

// DeadID returns the id of the dead letter for a message of a stream.
func DeadID(role, stream string, seq uint64, header map[string][]string) ID {
	var id string
	if v := header["Nats-Msg-Id"]; len(v) > 0 {
		id = v[0]
	}
	return Hash("dead", role, stream, fmt.Sprint(seq), id)
}

func (d *DeadLetter) subject() string { return deadSubject(d.Role, d.Code, d.Book, d.EventID()) }

func (d *DeadLetter) Validate() error {
	if d.Role == "" || d.Subject == "" {
		return errors.New("role, subject: both are required")
	}
	if playbook.Book(d.Role).Validate() != nil { // book names and roles have the same alphabet
		return fmt.Errorf("role: %.80q is not a valid subject token", d.Role)
	}
	if !d.Code.isToken() {
		return fmt.Errorf("code: %.80q is not a valid subject token", string(d.Code))
	}
	return nil
}

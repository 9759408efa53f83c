package events

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"debrief/playbook"
)

// Kind is the type of message on a subject.
type Kind string

// The kinds. Each is the second token of its subject.
const (
	KindTask       Kind = "task"
	KindExecution  Kind = "execution"
	KindFeedback   Kind = "feedback"
	KindReflection Kind = "reflection"
	KindEdit       Kind = "edit"
	KindDelta      Kind = "delta"
	KindRedaction  Kind = "redaction"
	KindDead       Kind = "dead"
)

const prefix = "debrief."

// Subject returns the subject for events of this kind in a book. An empty book returns the filter for all books.
func (k Kind) Subject(b playbook.Book) string {
	return prefix + string(k) + "." + string(cmp.Or(b, "*"))
}

// TaskSubject returns the subject for tasks of an owner in a book. It has the owner as its last token, so that only users with the
// right to this subject submit tasks for a named owner. The subject of the common owner has none. An empty book, or AnyOwner,
// returns a filter.
func TaskSubject(b playbook.Book, owner string) string { return withOwner(KindTask.Subject(b), owner) }

// AnyOwner is the filter for all named owners in a subject.
const AnyOwner = "*"

func withOwner(subject, owner string) string {
	if owner == "" {
		return subject
	}
	return subject + "." + owner
}

// ownerToken returns an owner as one token of a subject or a key. The common owner has the token "_".
func ownerToken(owner string) string { return cmp.Or(owner, "_") }

// TaskSubjects returns the filters for all tasks in a book. An empty book is all books.
func TaskSubjects(b playbook.Book) []string {
	return []string{TaskSubject(b, ""), TaskSubject(b, AnyOwner), RoundSubject(b, AnyOwner)}
}

// roundToken is the second token of the subject of a further round.
const roundToken = "round"

// RoundSubject returns the subject for further rounds of tasks of an owner in a book. Such a task carries the advice and the votes of
// earlier rounds, so only users with the right to this subject submit it: the Reflector. AnyOwner includes the common owner.
func RoundSubject(b playbook.Book, owner string) string {
	return prefix + roundToken + "." + string(cmp.Or(b, "*")) + "." + ownerToken(owner)
}

// AllDead is the filter for all messages of the stream of dead letters.
const AllDead = prefix + string(KindDead) + ".>"

// DeadSubject returns the subject filter for dead letters of a role and a book, with any code. An empty argument
// matches all roles or books.
func DeadSubject(role string, b playbook.Book) string { return deadSubject(role, "", b, "") }

// DeadCodeSubject returns the subject filter for dead letters of a role with this code.
func DeadCodeSubject(role string, code DeadCode) string { return deadSubject(role, code, "", "") }

// DeadIDSubject returns the subject filter for the dead letter with this id and any code.
func DeadIDSubject(role string, b playbook.Book, id ID) string { return deadSubject(role, "", b, id) }

// deadSubject returns the subject of a dead letter. An empty argument becomes a wildcard.
func deadSubject(role string, code DeadCode, b playbook.Book, id ID) string {
	tokens := []string{string(KindDead), role, string(code), string(b), string(id)}
	for i, token := range tokens {
		if token == "" {
			tokens[i] = "*"
		}
	}
	return prefix + strings.Join(tokens, ".")
}

// RedactionSubject returns the subject of the redactions of a delta, by the sequence of the delta in DELTAS. An empty book, or the sequence 0,
// returns a filter.
func RedactionSubject(b playbook.Book, seq uint64) string {
	token := "*"
	if seq > 0 {
		token = strconv.FormatUint(seq, 10)
	}
	return KindRedaction.Subject(b) + "." + token
}

// ServiceSubject returns the subject for requests of an owner about a book. The subject of a named owner ends with the owner,
// and only the gateway may use it: agents on NATS share the common owner. An empty book, or AnyOwner, returns a filter.
func ServiceSubject(verb string, b playbook.Book, owner string) string {
	return withOwner(prefix+apiToken+"."+verb+"."+string(cmp.Or(b, "*")), owner)
}

// Verbs of the service for outside agents. The verb is the third token of the subject.
const (
	VerbContext  = "context"
	VerbReport   = "execution"
	VerbFeedback = "feedback"
)

// apiToken is the second token of the subjects of the service.
const apiToken = "api"

// SubjectHealth is the subject for health requests. Every process of an account replies.
const SubjectHealth = prefix + "health"

// HeadSubject returns the subject on which the Curator announces each new version of a view, as a decimal number.
// An empty book returns the filter for all books. The message is a hint for followers of the view and is not
// stored.
func HeadSubject(b playbook.Book) string { return prefix + "head." + string(cmp.Or(b, "*")) }

// PeerSubject returns the subject on which a process of a role receives messages of the other processes. An empty id is the subject on
// which all of them announce themselves. No stream stores these messages.
func PeerSubject(role, id string) string {
	subject := prefix + "peers." + role
	if id == "" {
		return subject
	}
	return subject + "." + id
}

// ParseSubject returns the kind and the book of the subject of an event. OwnerOfSubject returns its owner. A subject of RedactionSubject
// is invalid here: redactions are read only with their delta.
func ParseSubject(subject string) (Kind, playbook.Book, error) {
	invalid := func() error { return fmt.Errorf("subject %.160q: not a subject of an event", subject) }
	rest, ok := strings.CutPrefix(subject, prefix)
	tokens := strings.Split(rest, ".") // the kind, then mostly the book
	if !ok || len(tokens) < 2 {
		return "", "", invalid()
	}
	kind, book := Kind(tokens[0]), playbook.Book(tokens[1])
	n := len(tokens)
	var ownerErr error
	switch {
	case kind == KindDead && n == 5: // dead.role.code.book.id
		book = playbook.Book(tokens[3])
	case kind == KindTask && n == 3: // task.book.owner
		ownerErr = ID(tokens[2]).validate()
	case kind == roundToken && n == 3: // round.book.owner
		kind = KindTask
		if tokens[2] != ownerToken("") {
			ownerErr = ID(tokens[2]).validate()
		}
	case kind != KindDead && kind != roundToken && n == 2: // kind.book
	default:
		return "", "", invalid()
	}
	if ownerErr != nil {
		return "", "", fmt.Errorf("subject %.160q: owner: %w", subject, ownerErr)
	}
	if err := book.Validate(); err != nil {
		return "", "", fmt.Errorf("subject %.160q: %w", subject, err)
	}
	return kind, book, nil
}

// OwnerOfSubject returns the owner in the subject of a task or of a request to the service. It is empty for the common owner.
func OwnerOfSubject(subject string) string {
	tokens := strings.Split(subject, ".")
	switch {
	case len(tokens) == 4 && tokens[1] == string(KindTask): // debrief.task.<book>.<owner>
		return tokens[3]
	case len(tokens) == 4 && tokens[1] == roundToken && tokens[3] != ownerToken(""): // debrief.round.<book>.<owner>
		return tokens[3]
	case len(tokens) == 5 && tokens[1] == apiToken: // debrief.api.<verb>.<book>.<owner>
		return tokens[4]
	}
	return ""
}

// ValidateOwner returns an error for an owner that is neither empty, for the common owner, nor an id.
func ValidateOwner(owner string) error {
	if owner == "" {
		return nil
	}
	if err := ID(owner).validate(); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	return nil
}

package events

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"debrief/events/redact"
	"debrief/playbook"
)

// Names of the streams. TASKS is a work queue. All streams except DELTAS and REDACTIONS drop messages by age.
const (
	StreamTasks       = "TASKS"
	StreamExecutions  = "EXECUTIONS"
	StreamReflections = "REFLECTIONS"
	StreamDeltas      = "DELTAS"
	StreamDead        = "DEAD"
	// StreamRedactions has the deltas whose texts were erased, in the place of the deltas that DELTAS no longer has.
	StreamRedactions = "REDACTIONS"

	BucketPlaybook = "playbook" // KV: the current bullets of each book, computed from DELTAS
	BucketWindow   = "window"   // KV with history: recent turns and notes
	BucketState    = "state"    // KV: marks and summaries of sessions, last runs, first copies
	BucketContexts = "contexts" // KV: contexts for outside agents, until they report
	BucketVectors  = "vectors"  // KV: embeddings of texts
	BucketRuns     = "runs"     // KV: progress of replays
	BucketAttempts = "attempts" // KV: number of attempts for each message
	BucketOpen     = "openruns" // KV: open runs of the gateway
	BucketCaptures = "captures" // KV: closed runs of the gateway, by the ids that clients have
	BucketErasures = "erasures" // KV: tombstones of erased runs
	BucketBlobs    = "blobs"    // object store: payloads too large for a message
)

// Names of the roles. A role is also the name of its durable consumer. The lag of that consumer is the number for
// autoscaling.
const (
	RoleGenerator = "generator"
	RoleReflector = "reflector"
	RoleCurator   = "curator"
)

// Users of a server with authentication. Each role is a user with the name of the role. These are the other users.
const (
	UserGateway  = "gateway"  // the HTTP server for agents and people
	UserOperator = "operator" // the tools of an operator
	UserAgent    = "agent"    // outside agents; they may only call the service
)

// InboxPrefix returns the prefix of a user's inboxes. With it a server can keep other users from subscribing to them.
func InboxPrefix(user string) string { return "_INBOX_" + user }

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

// Headers of messages. All other metadata is in the payload.
const (
	// HeaderSchema is the schema version of the payload, see Schema.
	HeaderSchema = "Debrief-Schema"
	// HeaderRepeat marks a message that may already have been published with another sequence, because it was
	// requeued, imported again, or produced by a redelivered message. A worker then checks whether the message has an
	// effect or a dead letter already. Whether an event counts never depends on this header.
	HeaderRepeat = "Debrief-Repeat"
	// HeaderBlob is the SHA-256 of the payload, which is the name of the blob that contains it. The message body is
	// empty.
	HeaderBlob = "Debrief-Blob"
	// HeaderReply is the subject for the reply to a message on a stream: the result, or the reason of a failure. It must
	// be an inbox. The reply subject of the message itself gets only the acknowledgement of the stream, and the server
	// does not store it.
	HeaderReply = "Debrief-Reply"
	// HeaderReplyType is the media type of that reply. It is set if the message was made from a request in JSON but is not JSON
	// itself.
	HeaderReplyType = "Debrief-Reply-Type"
	// HeaderContentType is the media type of the payload: application/json, or MessagePack if it is missing.
	HeaderContentType = "Content-Type"
	// HeaderHandle is the handle of the stored event that a reply carries.
	HeaderHandle = "Debrief-Handle"
	// HeaderError is the reason for the failure, in a reply without an event.
	HeaderError = "Debrief-Error"
	// HeaderTrace is the W3C trace context. Events inherit it from the event that caused them.
	HeaderTrace = "traceparent"
)

// Subject returns the subject for events of this kind in a book. An empty book returns the filter for all books.
func (k Kind) Subject(b playbook.Book) string {
	if b == "" {
		b = "*"
	}
	return prefix + string(k) + "." + string(b)
}

// TaskSubject returns the subject for tasks of an owner in a book. It has the owner as its last token, so that only users with the
// right to this subject submit tasks for a named owner. The subject of the common owner has none. An empty book, or AnyOwner,
// returns a filter.
func TaskSubject(b playbook.Book, owner string) string { return withOwner(KindTask.Subject(b), owner) }

func withOwner(subject, owner string) string {
	if owner == "" {
		return subject
	}
	return subject + "." + owner
}

// AnyOwner is the filter for all named owners in a subject.
const AnyOwner = "*"

// roundToken is the second token of the subject of a further round.
const roundToken = "round"

// RoundSubject returns the subject for further rounds of tasks of an owner in a book. Such a task carries the advice and the votes of
// earlier rounds, so only users with the right to this subject submit it: the Reflector. AnyOwner includes the common owner.
func RoundSubject(b playbook.Book, owner string) string {
	return prefix + roundToken + "." + string(cmp.Or(b, "*")) + "." + ownerToken(owner)
}

// isRoundSubject reports whether a subject is for further rounds.
func isRoundSubject(subject string) bool { return strings.HasPrefix(subject, prefix+roundToken+".") }

// TaskSubjects returns the filters for all tasks in a book. An empty book is all books.
func TaskSubjects(b playbook.Book) []string {
	return []string{TaskSubject(b, ""), TaskSubject(b, AnyOwner), RoundSubject(b, AnyOwner)}
}

// AllDead is the filter for all messages of the stream of dead letters.
const AllDead = prefix + string(KindDead) + ".>"

// DeadSubject returns the subject filter for dead letters of a role and a book, with any code. An empty argument
// matches all roles or books.
func DeadSubject(role string, b playbook.Book) string { return deadSubject(role, "", b, "") }

// DeadCodeSubject returns the subject filter for dead letters of a role with this code.
func DeadCodeSubject(role string, code DeadCode) string { return deadSubject(role, code, "", "") }

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

// RedactionSubject returns the subject of the redactions of a delta, by the sequence of the delta in DELTAS. An empty book, or the sequence 0, returns a filter.
func RedactionSubject(b playbook.Book, seq uint64) string {
	token := "*"
	if seq > 0 {
		token = strconv.FormatUint(seq, 10)
	}
	return KindRedaction.Subject(b) + "." + token
}

// PeerSubject returns the subject on which a process of a role receives messages of the other processes. An empty id is the subject on
// which all of them announce themselves. No stream stores these messages.
func PeerSubject(role, id string) string {
	subject := prefix + "peers." + role
	if id == "" {
		return subject
	}
	return subject + "." + id
}

// ParseSubject returns the kind and the book of a subject. OwnerOfSubject returns its owner.
func ParseSubject(subject string) (Kind, playbook.Book, error) {
	rest, hasPrefix := strings.CutPrefix(subject, prefix)
	kind, name, ok := strings.Cut(rest, ".")
	if ok && Kind(kind) == KindDead {
		tokens := strings.Split(name, ".") // role, code, book, id
		ok = len(tokens) == 4
		if ok {
			name = tokens[2]
		}
	}
	if !hasPrefix || !ok {
		return "", "", fmt.Errorf("subject %.160q: not a subject of an event", subject)
	}
	const invalidOwner = "." // ValidateOwner refuses it
	owner := ""
	mayHaveOwner := Kind(kind) == KindTask || kind == roundToken
	if i := strings.IndexByte(name, '.'); i >= 0 && mayHaveOwner {
		owner = cmp.Or(name[i+1:], invalidOwner)
		name = name[:i]
	}
	if kind == roundToken {
		kind = string(KindTask)
		switch owner {
		case ownerToken(""):
			owner = ""
		case "": // a further round must name its owner
			owner = invalidOwner
		}
	}
	book := playbook.Book(name)
	if err := errors.Join(book.Validate(), ValidateOwner(owner)); err != nil {
		return "", "", fmt.Errorf("subject %.160q: %w", subject, err)
	}
	return Kind(kind), book, nil
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

// Keys of the playbook bucket.

// HeadKey returns the key of the head of a book: its version and metadata.
func HeadKey(b playbook.Book) string { return string(b) + ".head" }

// BulletKey returns the key of a bullet.
func BulletKey(b playbook.Book, id playbook.BulletID) string {
	return string(b) + ".bullet." + id.Key()
}

// Verbs of the service for outside agents. The verb is the third token of the subject.
const (
	VerbContext  = "context"
	VerbReport   = "execution"
	VerbFeedback = "feedback"
)

// SubjectHealth is the subject for health requests. Every process of an account replies.
const SubjectHealth = prefix + "health"

// HeadSubject returns the subject on which the Curator announces each new version of a view, as a decimal number.
// An empty book returns the filter for all books. The message is a hint for followers of the view and is not
// stored.
func HeadSubject(b playbook.Book) string { return prefix + "head." + string(cmp.Or(b, "*")) }

// apiToken is the second token of the subjects of the service.
const apiToken = "api"

// ServiceSubject returns the subject for requests of an owner about a book. The subject of a named owner ends with the owner,
// and only the gateway may use it: agents on NATS share the common owner. An empty book, or AnyOwner, returns a filter.
func ServiceSubject(verb string, b playbook.Book, owner string) string {
	return withOwner(prefix+apiToken+"."+verb+"."+string(cmp.Or(b, "*")), owner)
}

// Keys of the buckets window and state. Clients choose the names of sessions, so reserved keys have names that no session can
// have.

// keyToken returns a session name as one token of a key. Names that begin with "_" are reserved, and names that
// begin with "x-" are hashes, so a session with such a name is hashed. A name that contains a secret is redacted.
func keyToken(name string) string {
	name = redact.ID(name)
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, "x-") {
		return "x-" + string(Hash("session", name))
	}
	return playbook.BulletID(name).Key()
}

// SessionKey returns the key for the turns of a session of an owner. Its history contains the last ones.
func SessionKey(b playbook.Book, owner, session string) string {
	return string(b) + "." + ownerToken(owner) + "." + keyToken(session)
}

// ownerToken returns an owner as one token of a subject or a key. The common owner has the token "_".
func ownerToken(owner string) string { return cmp.Or(owner, "_") }

// MarksKey returns the key for the marks of a session, such as pins.
func MarksKey(b playbook.Book, owner, session string) string {
	return SessionKey(b, owner, session) + ".marks"
}

// SummaryKey returns the key for the summary of a session's older turns.
func SummaryKey(b playbook.Book, owner, session string) string {
	return SessionKey(b, owner, session) + ".summary"
}

// NotesKey returns the key for the notes on reflections of a session of an owner. Its history contains the last ones.
func NotesKey(b playbook.Book, owner, session string) string {
	return SessionKey(b, owner, session) + ".reflections"
}

// BookNotesKey returns the key for the notes on reflections of a book, of all owners. Its history contains the last ones.
func BookNotesKey(b playbook.Book) string { return string(b) + "._reflections" }

// FirstCopiesKey returns one of the keys that record the first copy of each event.
func FirstCopiesKey(b playbook.Book, part uint16) string {
	return fmt.Sprintf("%s._first.%04x", b, part)
}

// RunKey returns the key for an owner's last run at a task with this label. The task is a hash, because a task name may
// contain any character.
func RunKey(b playbook.Book, owner string, task ID, l Label) string {
	return string(b) + "._runs." + ownerToken(owner) + "." + string(task) + "." + string(l)
}

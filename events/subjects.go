package events

import (
	"fmt"
	"strings"

	"debrief/events/redact"
	"debrief/playbook"
)

// Streams, as NATS knows them. TASKS is a work queue; the others keep what they hold by age.
const (
	StreamTasks       = "TASKS"
	StreamExecutions  = "EXECUTIONS"
	StreamReflections = "REFLECTIONS"
	StreamDeltas      = "DELTAS"
	StreamDead        = "DEAD"

	BucketPlaybook = "playbook" // KV: the view of DELTAS
	BucketWindow   = "window"   // KV with history: what sessions and books have seen last
	BucketContexts = "contexts" // KV: what outside agents were served, until they report
	BucketVectors  = "vectors"  // KV: embeddings that were paid for
	BucketRuns     = "runs"     // KV: how far runs over data sets are
	BucketAttempts = "attempts" // KV: how many deliveries of a message were attempts
	BucketBlobs    = "blobs"    // object store: payloads too large for a message
)

// Roles. A role is also the name of its durable consumer, so that its lag is the number a scaler reads.
const (
	RoleGenerator = "generator"
	RoleReflector = "reflector"
	RoleCurator   = "curator"
)

// Users of a server that tells them apart. Each role is a user of its own name; these are the others.
const (
	UserOperator = "operator" // people's tools
	UserAgent    = "agent"    // agents that run outside, who ask the service and nothing else
)

// InboxPrefix is what the inboxes of a user begin with, so that a server can keep others from listening to them.
func InboxPrefix(user string) string { return "_INBOX_" + user }

// Kind is what a subject carries.
type Kind string

// The kinds of event; each is the second token of its subject.
const (
	KindTask       Kind = "task"
	KindExecution  Kind = "execution"
	KindFeedback   Kind = "feedback"
	KindReflection Kind = "reflection"
	KindEdit       Kind = "edit"
	KindDelta      Kind = "delta"
	KindDead       Kind = "dead"
)

const prefix = "ace."

// Headers of our messages. The rest of a message's meaning is in its payload.
const (
	// HeaderSchema is the version of the payload's schema; see Schema.
	HeaderSchema = "Ace-Schema"
	// HeaderRepeat marks a message that may have been published before under another sequence: it is requeued,
	// re-imported or the result of a redelivery. It is shown to operators and decides nothing.
	HeaderRepeat = "Ace-Repeat"
	// HeaderBlob names the object, by SHA-256, that holds the payload of a message whose body is empty.
	HeaderBlob = "Ace-Blob"
	// HeaderHandle is the handle of the stored event that a reply carries.
	HeaderHandle = "Ace-Handle"
	// HeaderError is in a reply that carries no event: why the work was given up.
	HeaderError = "Ace-Error"
	// HeaderTrace is the W3C trace context; what is emitted for an event inherits it.
	HeaderTrace = "traceparent"
)

// Subject is the subject of events of this kind in this book; an empty book means every book.
func (k Kind) Subject(b playbook.Book) string {
	if b == "" {
		b = "*"
	}
	return prefix + string(k) + "." + string(b)
}

// DeadSubject is the filter for dead letters of a role and a book, whatever their code; empty means every one.
func DeadSubject(role string, b playbook.Book) string { return deadSubject(role, "", b, "") }

// DeadCodeSubject is the filter for dead letters of a role with this code.
func DeadCodeSubject(role string, code DeadCode) string { return deadSubject(role, code, "", "") }

// deadSubject is the subject of a dead letter: each has its own. An empty part is a wildcard.
func deadSubject(role string, code DeadCode, b playbook.Book, id ID) string {
	tokens := []string{string(KindDead), role, string(code), string(b), string(id)}
	for i, token := range tokens {
		if token == "" {
			tokens[i] = "*"
		}
	}
	return prefix + strings.Join(tokens, ".")
}

func cmpOr(b, other playbook.Book) playbook.Book {
	if b == "" {
		return other
	}
	return b
}

// ParseSubject is the kind and the book that a subject names.
func ParseSubject(subject string) (Kind, playbook.Book, error) {
	rest, ours := strings.CutPrefix(subject, prefix)
	kind, name, ok := strings.Cut(rest, ".")
	if ok && Kind(kind) == KindDead {
		tokens := strings.Split(name, ".") // role, code, book, id
		if ok = len(tokens) == 4; ok {
			name = tokens[2]
		}
	}
	if !ours || !ok {
		return "", "", fmt.Errorf("subject %.160q: is not one of ours", subject)
	}
	book := playbook.Book(name)
	if err := book.Validate(); err != nil {
		return "", "", fmt.Errorf("subject %.160q: %w", subject, err)
	}
	return Kind(kind), book, nil
}

// Keys of the playbook bucket.

// HeadKey is the key of a book's head.
func HeadKey(b playbook.Book) string { return string(b) + ".head" }

// BulletKey is the key of one bullet.
func BulletKey(b playbook.Book, id playbook.BulletID) string {
	return string(b) + ".bullet." + id.Key()
}

// Verbs of the service for outside agents, the third token of its subjects.
const (
	VerbContext  = "context"
	VerbReport   = "execution"
	VerbFeedback = "feedback"
)

// SubjectHealth is where every process of an account can be asked how it is.
const SubjectHealth = prefix + "health"

// HeadSubject is where the Curator announces each new version of a book's view, as a decimal number; an empty book means
// every book. The message is a hint to followers of the view and is stored nowhere.
func HeadSubject(b playbook.Book) string { return prefix + "head." + string(cmpOr(b, "*")) }

// ServiceSubject is where outside agents ask for something about a book; an empty book means every book.
func ServiceSubject(verb string, b playbook.Book) string {
	return prefix + "api." + verb + "." + string(cmpOr(b, "*"))
}

// Keys of the window bucket. Sessions are the clients' names, so what is ours stands where no session can.

// keyToken is a session's name as one token of a key. What begins with an underscore is ours and what begins with "x-"
// is the hash of a name, so a session with such a name is hashed too. A name that holds a secret is replaced.
func keyToken(name string) string {
	name = redact.ID(name)
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, "x-") {
		return "x-" + string(Hash("session", name))
	}
	return playbook.BulletID(name).Key()
}

// SessionKey is the key whose history holds the last interactions of a session.
func SessionKey(b playbook.Book, session string) string { return string(b) + "." + keyToken(session) }

// MarksKey is the key of what people marked in a session.
func MarksKey(b playbook.Book, session string) string { return SessionKey(b, session) + ".marks" }

// SummaryKey is the key of the summary of a session's older turns.
func SummaryKey(b playbook.Book, session string) string { return SessionKey(b, session) + ".summary" }

// NotesKey is the key whose history holds the last reflections of a session, or of the book when the session is empty.
func NotesKey(b playbook.Book, session string) string {
	if session == "" {
		return string(b) + "._reflections"
	}
	return SessionKey(b, session) + ".reflections"
}

// FirstKey is one of the keys that say which copies of events came first.
func FirstKey(b playbook.Book, part uint16) string { return fmt.Sprintf("%s._first.%04x", b, part) }

// RunKey is the key of the last run at a task that ended so. The task is an id, so that its name can be any.
func RunKey(b playbook.Book, task ID, l Label) string {
	return string(b) + "._runs." + string(task) + "." + string(l)
}

package erase

import (
	"context"
	"regexp"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/erasure"
	"debrief/events/window"
	"debrief/playbook"
)

// Stored values name the run that they are about in three ways: by the names of its user and session, by its ids and handles in the
// value, or by an id in the key. A value that this file does not know is found by the second and the third.

// stored is a message of a stream that may be about a run.
type stored struct {
	stream string
	direct.Message
	blobs []string       // names of its payload and of the description of its agent; set by aboutStored
	other *erasure.About // the run that it was compared with, and whose texts it may quote, or nil; set by aboutStored
}

// openRun has the fields of a run of the gateway that an erasure needs; see package capture.
type openRun struct {
	ID      events.ID     `msgpack:"id"`
	Owner   string        `msgpack:"owner"`
	User    string        `msgpack:"user"`
	Book    playbook.Book `msgpack:"book"`
	Session string        `msgpack:"session"`
	Started time.Time     `msgpack:"started"`
	Handle  events.Handle `msgpack:"handle"`
	Run     events.ID     `msgpack:"r"` // of a reference, which has no other field
	Agent   *events.Agent `msgpack:"agent"`
}

// aboutStored returns what a message is about. It has no names if the form of the message has none, or is unknown. ids are the ids of the
// value itself: other values that have one of them are about the same run.
func (e *Eraser) aboutStored(ctx context.Context, m *stored) (a erasure.About, ids []string) {
	switch m.stream {
	case events.StreamTasks, events.StreamExecutions, events.StreamReflections:
		a, ids = e.aboutEvent(ctx, m)
	case events.StreamDead:
		a, ids = e.aboutLetter(ctx, m)
	case events.StreamDeltas, events.StreamRedactions:
		_, a.Book, _ = events.ParseSubject(m.Subject)
	default:
		a, ids = aboutValue(m)
	}
	storedAt := m.Stored() // zero for the payload of a message that is gone
	isAhead := !storedAt.IsZero() && a.Began.After(storedAt)
	if a.Began.IsZero() || isAhead { // a client says when its run began, and its clock may be wrong
		a.Began = storedAt
	}
	return a, ids
}

// aboutValue returns what a value of a bucket is about.
func aboutValue(m *stored) (a erasure.About, ids []string) {
	key, _ := strings.CutPrefix(m.Subject, "$KV.")
	bucket, key, _ := strings.Cut(key, ".")
	book, rest, _ := strings.Cut(key, ".")
	a.Book = playbook.Book(book)
	switch bucket {
	case events.BucketWindow:
		if strings.HasSuffix(rest, "reflections") {
			return aboutNote(a, m)
		}
		if i := decode[events.Interaction](m); i != nil {
			a.User, a.Began = i.User, i.At
			a.Runs = []string{string(i.Execution), string(i.ID), string(i.First)}
		}
	case events.BucketState:
		if r := decode[window.Run](m); r != nil && strings.HasPrefix(rest, "_runs.") {
			a.User = r.User
			a.Runs = []string{string(r.Execution)}
		}
	case events.BucketContexts:
		if c := decode[events.ServedContext](m); c != nil {
			a = erasure.About{Book: c.Book, Owner: c.Owner, User: c.User, Session: c.Session, Began: c.Created}
			ids = []string{string(c.ID)}
		}
	case events.BucketOpen, events.BucketCaptures:
		r := decode[openRun](m)
		switch {
		case r == nil:
		case r.ID == "": // a reference
			a.Runs = []string{string(r.Run)}
		default:
			a = erasure.About{Book: r.Book, Owner: r.Owner, User: r.User, Session: r.Session, Runs: []string{string(r.Handle)}, Began: r.Started}
			ids = []string{string(r.ID)}
			m.addAgent(r.Agent)
		}
	}
	return a, ids
}

// aboutNote returns what a note is about. a has its playbook.
func aboutNote(a erasure.About, m *stored) (erasure.About, []string) {
	n := decode[events.Note](m)
	if n == nil {
		return a, nil
	}
	a.Owner, a.User, a.Session, a.Began = n.Owner, n.User, n.Session, n.At
	a.Runs = []string{string(n.Execution), string(n.Sample)}
	m.addOther(a.Book, n.Owner, n.OtherRun, n.At)
	return a, []string{string(n.ID), string(n.Reflection)}
}

// aboutLetter returns the run of the message in a dead letter. A message that cannot be decoded has only a playbook.
func (e *Eraser) aboutLetter(ctx context.Context, m *stored) (a erasure.About, ids []string) {
	if l := decode[events.DeadLetter](m); l != nil {
		original := direct.Message{Subject: l.Subject, Seq: l.Seq, Header: l.Header, Data: l.Data}
		of := &stored{stream: l.Stream, Message: original}
		a, ids = e.aboutEvent(ctx, of)
		m.blobs, m.other = of.blobs, of.other
	}
	if a.Book == "" {
		_, a.Book, _ = events.ParseSubject(m.Subject)
	}
	return a, ids
}

// aboutEvent returns the run of an event.
func (e *Eraser) aboutEvent(ctx context.Context, m *stored) (a erasure.About, ids []string) {
	if name := m.Header.Get(events.HeaderBlob); name != "" {
		m.blobs = append(m.blobs, name)
	}
	event, err := e.conn.Events.Decode(ctx, m.Subject, m.Header, m.Data)
	if err != nil {
		return a, nil
	}
	handle := string(events.NewHandle(m.Seq, event.EventID()))
	ids = []string{string(event.EventID()), handle}
	switch x := event.(type) {
	case *events.Execution:
		if x.ContextID != "" {
			ids = append(ids, string(x.ContextID))
		}
		m.addAgent(x.Agent)
	case *events.Reflection:
		m.addOther(x.Book, x.Owner, x.OtherRun, x.Created)
	case *events.Edit:
		a = erasure.About{Book: x.Book, Began: x.Created, Edit: string(x.ID)}
		if x.Forget != nil {
			a.User, a.Session, a.Owner = x.Forget.User, x.Forget.Session, x.Forget.Owner
			a.Runs = []string{x.Forget.Execution, x.Forget.Sample}
		}
		return a, ids
	}
	a, _ = erasure.AboutEvent(event)
	if m.stream == events.StreamExecutions && event.Kind() == events.KindExecution {
		a.Runs = append(a.Runs, handle)
	}
	return a, ids
}

// addOther sets the run that a reflection or a note was compared with.
func (m *stored) addOther(b playbook.Book, owner string, o *events.OtherRun, reflected time.Time) {
	if other, ok := erasure.AboutOther(b, owner, o, reflected); ok {
		m.other = &other
	}
}

// addAgent adds the payload that describes an agent.
func (m *stored) addAgent(a *events.Agent) {
	if a != nil && a.Ref != "" {
		m.blobs = append(m.blobs, a.Ref)
	}
}

// decode returns the value of a message, or nil if it has another form.
func decode[T any](m *stored) *T {
	v := new(T)
	if m.Deleted() || events.Unmarshal(m.Data, v) != nil {
		return nil
	}
	return v
}

// idLen is the length of an events.ID.
const idLen = 22

var (
	words        = regexp.MustCompile(`[0-9A-Za-z_-]+`)
	handlePrefix = regexp.MustCompile(`^[0-9]{1,20}-.{8}`) // an events.Handle at the beginning of a word
)

// mentions reports whether data has an id or a handle for which isFound returns true. MessagePack and JSON store both as they are.
func mentions(data []byte, isFound func(id string) bool) bool {
	for _, word := range words.FindAll(data, -1) {
		if len(word) >= idLen && isFound(string(word[:idLen])) {
			return true
		}
		if h := handlePrefix.Find(word); h != nil && isFound(string(h)) {
			return true
		}
	}
	return false
}

package events

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"debrief/playbook"
)

// Event is a payload together with its kind, book and id.
type Event interface {
	Kind() Kind
	// InBook returns the book, which is in the subject of the event.
	InBook() playbook.Book
	// EventID returns the id, unique for the kind and book of the event.
	EventID() ID
	// Validate returns an error that names each invalid field.
	Validate() error

	setBook(playbook.Book)
}

// Schema is the version of the payloads that this program writes, and the newest version that it reads. New
// optional fields keep the version, because unknown fields are ignored. The version grows if an old program would
// misread a payload.
const Schema = 1

// ErrNewerSchema is returned for a message with a schema newer than Schema. The message is valid and this program
// is old. A worker must keep such a message for a newer program, so it is dead-lettered with DeadNewerSchema and
// can be requeued.
var ErrNewerSchema = errors.New("newer schema than this program knows")

// Encode returns the subject, headers and payload of the message for an event. It returns an error for each event
// that Decode would reject.
func Encode(e Event) (subject string, header map[string][]string, data []byte, err error) {
	k, book := e.Kind(), e.InBook()
	if err := errors.Join(book.Validate(), e.Validate()); err != nil {
		return "", nil, nil, fmt.Errorf("encode %s: %w", k, err)
	}
	if data, err = Marshal(e); err != nil {
		return "", nil, nil, fmt.Errorf("encode %s: %w", k, err)
	}
	subject = k.Subject(book)
	switch e := e.(type) {
	case *DeadLetter:
		subject = e.subject()
	case *Task:
		subject = TaskSubject(book, e.Owner)
		if len(e.PreviousRounds) > 0 {
			subject = RoundSubject(book, e.Owner)
		}
	}
	return subject, SchemaHeader(), data, nil
}

// Decode returns the event of a message. The book of the event, and the owner of a task, are taken from the subject. The error is
// ErrNewerSchema, or it names the invalid field or header.
func Decode(subject string, header map[string][]string, data []byte) (Event, error) {
	k, book, err := ParseSubject(subject)
	if err != nil {
		return nil, err
	}
	e, err := newEvent(k)
	if err != nil {
		return nil, fmt.Errorf("subject %q: %w", subject, err)
	}
	if _, err := ReplySubject(header); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	asJSON, err := IsJSON(header)
	if err == nil && asJSON {
		err = decodeJSON(header, data, e, book)
	} else if err == nil {
		err = decodeMessagePack(header, data, e)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	e.setBook(book)
	if t, ok := e.(*Task); ok {
		t.Owner = OwnerOfSubject(subject)
		hasRounds, wantsRounds := len(t.PreviousRounds) > 0, strings.HasPrefix(subject, prefix+roundToken+".")
		if hasRounds != wantsRounds {
			return nil, fmt.Errorf("decode %s: previous_rounds: got %d on subject %q, want some on %s, and none elsewhere", k, len(t.PreviousRounds), subject, RoundSubject(book, t.Owner))
		}
	}
	if err := e.Validate(); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	return e, nil
}

func decodeMessagePack(header map[string][]string, data []byte, e Event) error {
	if bytes.HasPrefix(data, []byte("{")) { // as MessagePack this is the number 123
		return fmt.Errorf("payload: is JSON, want MessagePack, or a task with the header %s: %s", HeaderContentType, ContentTypeJSON)
	}
	if err := CheckSchema(header); err != nil {
		return err
	}
	return Unmarshal(data, e)
}

// decodeJSON decodes a task. A missing schema header means the newest schema, because unknown fields are errors.
func decodeJSON(header map[string][]string, data []byte, e Event, book playbook.Book) error {
	task, ok := e.(*Task)
	if !ok {
		return fmt.Errorf("header %s: only tasks may be JSON", HeaderContentType)
	}
	if len(header[HeaderSchema]) > 0 {
		if err := CheckSchema(header); err != nil {
			return err
		}
	}
	if err := DecodeStrict(data, task); err != nil {
		return err
	}
	if task.Book != "" && task.Book != book {
		return fmt.Errorf("book: %.80q differs from book %q in the subject", task.Book, book)
	}
	task.Created = task.Created.UTC()
	if err := checkTime(task.Created); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	return nil
}

func newEvent(k Kind) (Event, error) {
	switch k {
	case KindTask:
		return new(Task), nil
	case KindExecution:
		return new(Execution), nil
	case KindFeedback:
		return new(Feedback), nil
	case KindReflection:
		return new(Reflection), nil
	case KindEdit:
		return new(Edit), nil
	case KindDead:
		return new(DeadLetter), nil
	}
	return nil, fmt.Errorf("kind %q: not an event", string(k))
}

// EncodeDelta returns the payload of the message for a delta. It returns an error for a delta that DecodeDelta
// would reject, and for a payload larger than playbook.MaxDeltaBytes.
func EncodeDelta(d *playbook.Delta) ([]byte, error) {
	data, err := encodeValid("delta", d)
	if err == nil && len(data) > playbook.MaxDeltaBytes {
		return nil, fmt.Errorf("encode delta: too large: %d bytes, at most %d are allowed", len(data), playbook.MaxDeltaBytes)
	}
	return data, err
}

// encodeValid returns the payload for a value, or an error if it is invalid. kind names the value in errors.
func encodeValid(kind string, v interface{ Validate() error }) ([]byte, error) {
	if err := v.Validate(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	data, err := Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return data, nil
}

// DecodeDelta returns the delta of a payload. The caller checks the headers first, with CheckSchema. If the delta
// has an operation of an unknown kind, DecodeDelta returns ErrNewerSchema together with the delta, whose version
// and link to the delta before it are valid.
func DecodeDelta(data []byte) (*playbook.Delta, error) {
	d := new(playbook.Delta)
	if err := Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("decode delta: %w", err)
	}
	switch err := d.Validate(); {
	case errors.Is(err, playbook.ErrUnknownOp):
		return d, fmt.Errorf("decode delta: %w: %w", ErrNewerSchema, err)
	case err != nil:
		return nil, fmt.Errorf("decode delta: %w", err)
	}
	return d, nil
}

// SchemaHeader returns new message headers that declare Schema.
func SchemaHeader() map[string][]string {
	return map[string][]string{HeaderSchema: {strconv.Itoa(Schema)}}
}

// CheckSchema reports whether this program can read a message with these headers. It returns ErrNewerSchema for a
// newer schema, and another error if the header is missing or invalid.
func CheckSchema(header map[string][]string) error {
	values := header[HeaderSchema]
	if len(values) != 1 {
		return fmt.Errorf("header %s: want one value, got %d", HeaderSchema, len(values))
	}
	v, err := strconv.ParseUint(values[0], 10, 31)
	switch {
	case err != nil || v == 0:
		return fmt.Errorf("header %s: invalid version %q", HeaderSchema, values[0])
	case v > Schema:
		return fmt.Errorf("header %s: version %d: %w", HeaderSchema, v, ErrNewerSchema)
	}
	return nil
}

package events

import (
	"errors"
	"fmt"
	"strconv"

	"debrief/playbook"
)

// Schema is the version of the payloads that this program writes, and the newest that it reads. New optional fields
// keep it: unknown ones are ignored. It grows when an old program would misread a payload.
const Schema = 1

// ErrNewerSchema is returned when a message was written under a schema newer than Schema. The message is fine and this
// program is old: it must leave such messages to its successor, never dead-letter them.
var ErrNewerSchema = errors.New("newer schema than this program knows")

// Encode is the event as a message: its subject, its headers and its payload. It refuses what Decode would refuse.
func Encode(e Event) (subject string, header map[string][]string, data []byte, err error) {
	k, book := e.Kind(), e.InBook()
	if err := errors.Join(book.Validate(), e.Validate()); err != nil {
		return "", nil, nil, fmt.Errorf("encode %s: %w", k, err)
	}
	if data, err = Marshal(e); err != nil {
		return "", nil, nil, fmt.Errorf("encode %s: %w", k, err)
	}
	subject = k.Subject(book)
	if d, ok := e.(*DeadLetter); ok {
		subject = d.subject()
	}
	return subject, SchemaHeader(), data, nil
}

// Decode is the event that a message holds. Its book is the subject's. The error is ErrNewerSchema, or else names the
// field that no worker can use.
func Decode(subject string, header map[string][]string, data []byte) (Event, error) {
	k, book, err := ParseSubject(subject)
	if err != nil {
		return nil, err
	}
	e, err := newEvent(k)
	if err != nil {
		return nil, fmt.Errorf("subject %q: %w", subject, err)
	}
	if err := CheckSchema(header); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	if err := Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	e.setBook(book)
	if err := e.Validate(); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	return e, nil
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
	return nil, fmt.Errorf("kind %q: is no event", string(k))
}

// EncodeDelta is the payload of a delta's message. It refuses what may not enter a log: what DecodeDelta would refuse,
// and what is larger than playbook.MaxDeltaBytes.
func EncodeDelta(d *playbook.Delta) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("encode delta: %w", err)
	}
	data, err := Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode delta: %w", err)
	}
	if len(data) > playbook.MaxDeltaBytes {
		return nil, fmt.Errorf("encode delta: has %d bytes, more than %d", len(data), playbook.MaxDeltaBytes)
	}
	return data, nil
}

// DecodeDelta is the delta that a payload holds. Readers of messages call CheckSchema first. For a delta with an operation
// of a kind that this program does not know, the error is ErrNewerSchema and the delta is returned with it: its versions
// and links are valid.
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

// SchemaHeader is a new set of headers that declares Schema.
func SchemaHeader() map[string][]string {
	return map[string][]string{HeaderSchema: {strconv.Itoa(Schema)}}
}

// CheckSchema reports whether a message with these headers can be read: nil, ErrNewerSchema, or that the header is
// missing or no version, in which case the message is none of ours.
func CheckSchema(header map[string][]string) error {
	values := header[HeaderSchema]
	if len(values) != 1 {
		return fmt.Errorf("header %s: want one, got %d", HeaderSchema, len(values))
	}
	v, err := strconv.ParseUint(values[0], 10, 31)
	switch {
	case err != nil || v == 0:
		return fmt.Errorf("header %s: %q is no version", HeaderSchema, values[0])
	case v > Schema:
		return fmt.Errorf("header %s: version %d: %w", HeaderSchema, v, ErrNewerSchema)
	}
	return nil
}

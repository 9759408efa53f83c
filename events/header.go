package events

import (
	"fmt"
	"mime"
	"slices"
	"strings"

	"debrief/playbook"
)

// ContentTypeJSON is the media type of JSON. Only tasks may have it: clients write them by hand or in languages
// without MessagePack.
const ContentTypeJSON = "application/json"

// messagePackTypes are the media types of MessagePack in use.
var messagePackTypes = []string{"application/msgpack", "application/x-msgpack", "application/vnd.msgpack"}

// IsJSON reports whether the payload of a message is JSON. It returns an error for an unknown media type. Names of
// headers match without regard to case, as in HTTP.
func IsJSON(header map[string][]string) (bool, error) {
	var types []string
	for name, values := range header {
		if strings.EqualFold(name, HeaderContentType) {
			types = append(types, values...)
		}
	}
	if len(types) == 0 {
		return false, nil
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	switch charset := parameters["charset"]; {
	case len(types) > 1:
		return false, fmt.Errorf("header %s: want one value, got %d", HeaderContentType, len(types))
	case err == nil && charset != "" && !strings.EqualFold(charset, "utf-8"):
		return false, fmt.Errorf("header %s: charset must be utf-8, got %.80q", HeaderContentType, charset)
	case err == nil && media == ContentTypeJSON:
		return true, nil
	case err == nil && slices.Contains(messagePackTypes, media):
		return false, nil
	}
	return false, fmt.Errorf("header %s: must be %s or %s, got %.80q", HeaderContentType, ContentTypeJSON, messagePackTypes[0], types[0])
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

// IsInbox reports whether a reply may be sent to a subject. A reply is published with the permissions of the replying program, which exceed
// the permissions of the client. With another subject a client could publish where it has no permission itself. The server uses the second and the
// third prefix for requests from other accounts and clusters, and clients cannot choose them.
func IsInbox(subject string) bool {
	return strings.HasPrefix(subject, "_INBOX") || strings.HasPrefix(subject, "_R_.") || strings.HasPrefix(subject, "_GR_.")
}

// ReplySubject returns the subject for the reply to a message on a stream, or "" if the message requests none. It returns an error for a
// subject that is not an inbox of a client.
func ReplySubject(header map[string][]string) (string, error) {
	values := header[HeaderReply]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", fmt.Errorf("header %s: want one value, got %d", HeaderReply, len(values))
	}
	if !strings.HasPrefix(values[0], "_INBOX") || strings.ContainsAny(values[0], " \t\r\n*>") {
		return "", fmt.Errorf("header %s: %.160q is not an inbox", HeaderReply, values[0])
	}
	return values[0], nil
}

package events

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"mime"
	"slices"
	"strings"
)

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
	if len(types) > 1 {
		return false, fmt.Errorf("header %s: want one value, got %d", HeaderContentType, len(types))
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	isJSON := media == ContentTypeJSON
	if err != nil || !isJSON && !slices.Contains(messagePackTypes, media) {
		return false, fmt.Errorf("header %s: must be %s or %s, got %.80q", HeaderContentType, ContentTypeJSON, messagePackTypes[0], types[0])
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return false, fmt.Errorf("header %s: charset must be utf-8, got %.80q", HeaderContentType, charset)
	}
	return isJSON, nil
}

// IsInbox reports whether a reply may be sent to a subject. A reply is published with the permissions of the replying program, which exceed
// those of the client: with another subject the client could publish where it has no permission itself.
func IsInbox(subject string) bool {
	// The server makes the last two for requests from other accounts and clusters. No client can choose them.
	return strings.HasPrefix(subject, inboxPrefix) || strings.HasPrefix(subject, "_R_.") || strings.HasPrefix(subject, "_GR_.")
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
	if !strings.HasPrefix(values[0], inboxPrefix) || strings.ContainsAny(values[0], " \t\r\n*>") {
		return "", fmt.Errorf("header %s: %.160q is not an inbox", HeaderReply, values[0])
	}
	return values[0], nil
}

// A trace context is the value of HeaderTrace: version, trace id, span id and flags in lower-case hex, as W3C Trace
// Context defines it. Any client can write the header, so an invalid value is neither stored nor logged.
const traceLen = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// NewTrace returns the trace context of a new, sampled trace. Events inherit the context of the event that caused
// them.
func NewTrace() string {
	var ids [24]byte
	rand.Read(ids[:]) // never fails
	text := make([]byte, 0, traceLen)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, ids[:16])
	text = append(text, '-')
	text = hex.AppendEncode(text, ids[16:])
	return string(append(text, "-01"...))
}

// TraceID returns the trace id of a trace context, 32 hex digits. It returns "" for an invalid context: wrong
// length, invalid version ff, an id of zeros, or other characters than lower-case hex.
func TraceID(context string) string {
	if len(context) != traceLen || context[2] != '-' || context[35] != '-' || context[52] != '-' {
		return ""
	}
	version, flags := context[:2], context[53:]
	trace, span := context[3:35], context[36:52]
	for _, part := range []string{version, trace, span, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}
	if version == "ff" || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return ""
	}
	return trace
}

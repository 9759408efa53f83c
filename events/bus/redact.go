package bus

import (
	"bytes"

	"debrief/events"
	"debrief/events/redact"
)

// redactLetter replaces the secrets in the original message of a dead letter. Clients that publish to NATS directly do
// not redact. The message can still be decoded and requeued.
func redactLetter(l *events.DeadLetter) {
	header := make(map[string][]string, len(l.Header))
	for name, values := range l.Header {
		for _, v := range values {
			header[name] = append(header[name], redact.Text(v))
		}
	}
	l.Header = header
	if len(l.Data) > 0 {
		l.Data = redactPayload(l)
	}
}

// redactPayload returns the payload of a dead letter without secrets.
func redactPayload(l *events.DeadLetter) []byte {
	if e, err := events.Decode(l.Subject, l.Header, l.Data); err == nil {
		before, err := events.Marshal(e)
		redact.Fields(e)
		if after, failed := events.Marshal(e); err == nil && failed == nil && !bytes.Equal(before, after) {
			return after
		}
		return l.Data
	}
	if data, err := events.RewriteStrings(l.Data, redact.Text); err == nil { // for example an event of a newer schema
		return data
	}
	if text := redact.Text(string(l.Data)); len(text) != len(l.Data) {
		return []byte(text)
	}
	return l.Data
}

package bus

import (
	"bytes"
	"encoding/json"

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
	if to, err := events.ReplySubject(l.Header); err == nil && to != "" { // an inbox is random, which looks like a secret
		header[events.HeaderReply] = []string{to}
	}
	l.Header = header
	if len(l.Data) > 0 {
		l.Data = redactPayload(l)
	}
}

// redactPayload returns the payload of a dead letter without secrets.
func redactPayload(l *events.DeadLetter) []byte {
	if e, err := events.Decode(l.Subject, l.Header, l.Data); err == nil {
		marshal := events.Marshal
		if asJSON, _ := events.IsJSON(l.Header); asJSON {
			marshal = json.Marshal
		}
		before, err := marshal(e)
		if err != nil {
			return l.Data
		}
		redact.Fields(e)
		after, err := marshal(e)
		if err != nil || bytes.Equal(before, after) { // without a secret the letter keeps the original bytes
			return l.Data
		}
		return after
	}
	if data, err := events.RewriteStrings(l.Data, redact.Text); err == nil { // for example an event of a newer schema
		return data
	}
	return []byte(redact.Text(string(l.Data)))
}

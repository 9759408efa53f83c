package events

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A trace context is the text of HeaderTrace: version, trace id, span id and flags in lower-case hex, as W3C Trace Context
// has them. Nobody vouches for who wrote it, so what is none is neither kept nor logged.
const traceLen = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// NewTrace is the trace context of a new, sampled trace. What comes of the event that carries it carries it on.
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

// TraceID is the trace id of a trace context, 32 hex digits: what a collector knows the trace by. It is "" when the text is
// no trace context: of another length, of the version that means none, without an id, or not in lower-case hex.
func TraceID(context string) string {
	if len(context) != traceLen || context[2] != '-' || context[35] != '-' || context[52] != '-' {
		return ""
	}
	version, trace, span, flags := context[:2], context[3:35], context[36:52], context[53:]
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

// Keys of log lines, the same wherever a message is handled.
const (
	LogTrace    = "trace"    // the trace id
	LogEvent    = "event"    // the event's id
	LogBook     = "book"     // the playbook's name
	LogRole     = "role"     // who handles it
	LogSeq      = "seq"      // its sequence in the role's stream
	LogDelivery = "delivery" // how often it was delivered by now
	LogVersion  = "version"  // of the playbook
)

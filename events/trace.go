package events

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

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

// Keys of structured log fields. All packages that handle messages use them.
const (
	LogTrace    = "trace"    // the trace id
	LogEvent    = "event"    // the id of the event
	LogBook     = "book"     // the name of the playbook
	LogRole     = "role"     // the role that handles the message
	LogSeq      = "seq"      // the sequence of the message in its stream
	LogDelivery = "delivery" // the number of deliveries so far
	LogVersion  = "version"  // the version of the playbook
)

package simulated

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// event is an event of a stream.
type event struct {
	name string // "" for an event of Chat, which has no names; ":" for a comment
	data any    // an object, or a string that is sent as it is
}

// writeStream sends events as server-sent events, each at once.
func writeStream(w http.ResponseWriter, r *http.Request, api API, a Answer, events []event) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Request-Id", "req_fake")
	if a.Ping {
		events = append(pings(api), events...)
	}
	if a.Fail {
		events = append(events[:len(events)/2:len(events)/2], failEvent(api))
	}
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for i, e := range events {
		isCut := a.Cut > 0 && i == a.Cut
		isHalf := a.Cut == Half && i == len(events)/2
		if isCut || isHalf {
			panic(http.ErrAbortHandler)
		}
		wait(r, a.Delay)
		if _, err := fmt.Fprint(w, e.String()); err != nil {
			return // the client has disconnected
		}
		_ = flush()
	}
}

// String returns the bytes of an event.
func (e event) String() string {
	text, ok := e.data.(string)
	if !ok {
		data, _ := json.Marshal(e.data) // maps of strings and numbers cannot fail
		text = string(data)
	}
	switch e.name {
	case "":
		return "data: " + text + "\n\n"
	case ":":
		return ": " + text + "\n\n"
	}
	return "event: " + e.name + "\ndata: " + text + "\n\n"
}

func pings(api API) []event {
	if api == Messages {
		return nil // messageEvents has a ping after message_start, where Anthropic sends it
	}
	return []event{{":", "ping"}, {":", "ping"}}
}

func failEvent(api API) event {
	a := Answer{Status: http.StatusInternalServerError, Message: "failed in mid-stream"}
	switch api {
	case Messages:
		return event{"error", errorObject(api, a)}
	case Responses:
		return event{"error", object{"type": "error", "code": "server_error", "message": a.Message, "param": nil, "sequence_number": 99}}
	}
	return event{"", errorObject(api, a)}
}

// pieces splits a text into the texts of the events of a stream: parts of at most 12 bytes, at spaces where possible.
func pieces(text string) []string {
	var all []string
	for len(text) > 12 {
		n := strings.LastIndexByte(text[:12], ' ') + 1
		if n == 0 {
			n = 12
			for !utf8.RuneStart(text[n]) {
				n--
			}
		}
		all = append(all, text[:n])
		text = text[n:]
	}
	return append(all, text)
}

package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/simulated/wires"
)

// maxBodyBytes limits a request. It is larger than any context window.
const maxBodyBytes = 8 << 20

// tokens estimates the number of tokens, at four bytes each.
func tokens(bytes int) int { return (bytes + 3) / 4 }

// serve answers the requests of the three model APIs, each after the latency.
func (m *model) serve(apis http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		if pause(r, m.Latency) { // else the client disconnected
			apis.ServeHTTP(w, r)
		}
	}
}

// reply answers a request of one of the model APIs.
func (m *model) reply(r *wires.Request) wires.Answer {
	c := newConversation(r, m.Seed)
	fault := m.fault(c, r.Header)
	switch fault {
	case "busy":
		return wires.Answer{Status: http.StatusTooManyRequests, Message: busyText, RetryAfter: "1", RetryAfterMS: "50"}
	case "broken":
		return wires.Answer{Status: http.StatusInternalServerError, Message: brokenText}
	case "garbage":
		return wires.Answer{HTML: garbagePage}
	}
	out := wires.Answer{ID: fmt.Sprintf("%016x", c.draw("id")), Model: Name, Fingerprint: fingerprint}
	if call := c.call(r); call != nil {
		out.Calls = []wires.Call{*call}
	} else {
		out.Text = m.answer(c)
	}
	if limit := 4 * r.MaxTokens; limit > 0 && len(out.Text) > limit {
		out.Text, out.Length = strings.ToValidUTF8(out.Text[:limit], ""), true
	}
	out.Usage = &wires.Usage{Input: tokens(c.bytes()), Output: tokens(len(out.Text))}
	if fault == "cut" {
		out.Cut = wires.Half
	}
	return out
}

// pause delays a reply by d. It returns false if the client disconnects before that.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// cutBody announces the length of body, writes half of it and closes the connection.
func cutBody(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body[:len(body)/2]))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// readJSON decodes the body of r. On an error it writes the error response and returns false.
func readJSON(w http.ResponseWriter, r *http.Request, in any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes)).Decode(in)
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		status = http.StatusRequestEntityTooLarge
	}
	writeError(w, status, "invalid_request_error", "simulated: "+err.Error())
	return false
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": message, "type": kind, "code": kind}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client disconnected.
	_, _ = w.Write([]byte(asJSON(v) + "\n"))
}

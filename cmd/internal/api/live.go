package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"debrief/events/service"
)

// Times of a stream of events.
const (
	heartbeat = 15 * time.Second // longest time without a byte, so that proxies keep the connection
	sendLimit = 10 * time.Second // for one write: a client that reads slower is disconnected
)

// eventStream sends events to a client (text/event-stream).
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limit   int // number of events to send; 0 for no limit
	sent    int
}

// send sends an event with a value in JSON. It reports whether the stream continues.
func (s *eventStream) send(name string, value any) bool {
	data, err := json.Marshal(value)
	if err != nil {
		return false
	}
	if !s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data)) {
		return false
	}
	s.sent++
	return s.limit == 0 || s.sent < s.limit
}

// write sends text. It returns false if the client has disconnected or is too slow.
func (s *eventStream) write(text string) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(sendLimit)) // a test may have no connection
	_, err := s.w.Write([]byte(text))
	if err == nil {
		err = s.control.Flush()
	}
	return err == nil
}

// serveLive runs a route that sends events until it returns. It returns a response that is marked as sent, or an error if the stream could
// not begin.
func (h *handler) serveLive(c *call, w http.ResponseWriter, r *http.Request) (response, error) {
	select {
	case h.streamSlots <- struct{}{}:
		defer func() { <-h.streamSlots }()
	default:
		return response{}, service.ErrBusy
	}
	value, _ := h.openStreams.LoadOrStore(c.token.Name, new(atomic.Int32))
	open := value.(*atomic.Int32)
	defer open.Add(-1)
	if open.Add(1) > maxTokenStreams {
		return response{}, &statusError{status: http.StatusTooManyRequests, code: CodeStreams, text: fmt.Sprintf("token %q has %d open streams of events: close one", c.token.Name, maxTokenStreams)}
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would collect the events
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		c.route.stream(c, &eventStream{w: w, control: http.NewResponseController(w), limit: c.integer("limit", 0)})
	}
	return response{sent: true}, nil
}

// maxTokenStreams is the maximum number of open streams of one token. It is below maxStreams, so that other tokens can open streams, too.
const maxTokenStreams = 32

// renewToken looks up the token of a call again, because the tokens file may have changed. It returns false if the token was revoked or has
// lost the scope of the route.
func (c *call) renewToken() bool {
	t, err := c.handler.tokens.Of(c.header, c.remote)
	if err != nil || !t.Allows(c.route.scope) {
		return false
	}
	c.token = t
	return true
}

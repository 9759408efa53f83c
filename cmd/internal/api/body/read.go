package body

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"debrief/events/service"
)

// Reader reads the JSON bodies of requests.
type Reader struct {
	Memory  *Memory
	Pace    Pace
	Timeout time.Duration // of a whole body
}

// Read reads the body of a request, at most limit bytes. Its errors have the status of the response. The caller must release the room of
// the body, also after an error.
func (rd *Reader) Read(w http.ResponseWriter, r *http.Request, limit int64) (held Buffered, err error) {
	tooLarge := service.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: the limit is %d bytes", limit))
	if err := checkJSON(r.Header); err != nil {
		return held, err
	}
	if r.ContentLength > limit {
		drain(w, r, 0)
		return held, tooLarge
	}
	held, err = rd.Memory.Hold(rd.Pace.Wrap(w, r.Body, time.Now().Add(rd.Timeout)), r.ContentLength, limit)
	switch {
	case errors.Is(err, ErrSlow):
		w.Header().Set("Connection", "close")
		return held, service.NewError(http.StatusRequestTimeout, "body too slow")
	case err != nil:
		return held, service.NewError(http.StatusBadRequest, "incomplete body")
	case errors.Is(held.Reason, ErrNoMemory):
		w.Header().Set("Connection", "close")
		return held, service.ErrBusy
	case held.Reason != nil: // ErrTooLarge
		drain(w, r, int64(len(held.Data)))
		return held, tooLarge
	}
	return held, nil
}

// Limits of discarding the rest of a body that is too large.
const (
	maxDrain  = 32 << 20 // bytes of the whole body
	drainTime = 5 * time.Second
)

// drain discards the rest of a body that is too large. read is the number of bytes that were read before. Without drain, a client that
// still sends would get a reset connection instead of the response. drain does not read a body that declares more than maxDrain bytes,
// or whose client waits for the permission to send it (Expect). The connection is closed after the response in any case.
func drain(w http.ResponseWriter, r *http.Request, read int64) {
	w.Header().Set("Connection", "close")
	if r.ContentLength > maxDrain || read == 0 && r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime)) // a test may have no connection
	_, _ = io.CopyN(io.Discard, r.Body, maxDrain-read)                           // ignore the error: the response is the same
}

// checkJSON returns an error for a body whose headers do not declare JSON, without an encoding.
func checkJSON(h http.Header) error {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/json" || !strings.EqualFold(cmp.Or(params["charset"], "utf-8"), "utf-8") {
		return service.NewError(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	if encoding := strings.Join(h.Values("Content-Encoding"), ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return service.NewError(http.StatusUnsupportedMediaType, "want the body without Content-Encoding")
	}
	return nil
}

package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// maxBody is the size limit of bodies for the Middle, in bytes.
const maxBody = 32 << 20

// firstRoom is the initial capacity for a body of unknown length, in bytes.
const firstRoom = 16 << 10

// errSlow is returned for a body that arrives too slowly.
var errSlow = errors.New("body too slow")

// pace is the minimum rate of a request body: step bytes, or all that are left, in each window. Only time in which the gateway waits
// for bytes counts.
type pace struct {
	step   int
	window time.Duration
}

var defaultPace = pace{step: 8 << 10, window: 10 * time.Second}

// pacedBody is a request body that must arrive with a minimum rate. It sets read deadlines of the connection, and removes them at the
// end of the body: a deadline that passes later would cancel the request.
type pacedBody struct {
	io.ReadCloser
	deadline func(time.Time) error
	pace     pace
	bytes    int           // received in this window
	waited   time.Duration // in this window
	failed   atomic.Bool   // reading failed
	slow     atomic.Bool   // reading failed because the body is too slow
}

func (p pace) wrap(w http.ResponseWriter, body io.ReadCloser) *pacedBody {
	return &pacedBody{ReadCloser: body, deadline: http.NewResponseController(w).SetReadDeadline, pace: p}
}

// Read implements io.Reader. It returns errSlow for a slow body.
func (b *pacedBody) Read(p []byte) (int, error) {
	began := time.Now()
	_ = b.deadline(began.Add(b.pace.window - b.waited)) // tests may have no connection
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(began)
	b.bytes += n
	if b.bytes >= b.pace.step {
		b.bytes, b.waited = 0, 0 // the next window
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.slow.Store(true)
		b.failed.Store(true)
		return n, errSlow
	case err != nil:
		b.failed.Store(!errors.Is(err, io.EOF))
		_ = b.deadline(time.Time{})
	}
	return n, err
}

// failure returns the failure of reading the body, or nil. It is the cause of later errors, too: the server cancels the request when a
// read fails.
func (b *pacedBody) failure() *failure {
	switch {
	case b == nil || !b.failed.Load():
		return nil
	case b.slow.Load():
		return refusal(http.StatusRequestTimeout, "slow_body", "request body arrives too slowly")
	}
	return refusal(http.StatusBadRequest, "incomplete_body", "incomplete request body")
}

// budget counts the bytes that all requests hold.
type budget struct {
	limit int64
	held  atomic.Int64
}

// take reserves n bytes, or nothing if the limit would be exceeded.
func (b *budget) take(n int64) bool {
	if b.held.Add(n) > b.limit {
		b.held.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.held.Add(-n) }

// held is a body, or its beginning, in memory that is reserved.
type held struct {
	data   []byte
	room   int64 // reserved bytes
	whole  bool
	reason reason // why the body is not whole
}

// hold reads a body up to its end, up to limit, or until the budget has no room left. Room is reserved as bytes arrive: a
// declared length reserves nothing. The caller must give held.room back to the budget.
func (b *budget) hold(body io.Reader, declared, limit int64) (held, error) {
	var h held
	// One more byte than the body has: then the read after the body finds its end without growing the memory.
	maxRoom := limit + 1
	if declared >= 0 {
		maxRoom = declared + 1
	}
	for {
		if int64(len(h.data)) > limit {
			h.reason = bodySize
			return h, nil
		}
		if len(h.data) == cap(h.data) {
			size := min(max(2*int64(cap(h.data)), firstRoom), maxRoom)
			if !b.take(size - h.room) {
				h.reason = noMemory
				return h, nil
			}
			h.room = size
			h.data = append(make([]byte, 0, size), h.data...)
		}
		n, err := body.Read(h.data[len(h.data):cap(h.data)])
		h.data = h.data[:len(h.data)+n]
		if errors.Is(err, io.EOF) {
			h.whole = int64(len(h.data)) <= limit
			if !h.whole {
				h.reason = bodySize
			}
			return h, nil
		}
		if err != nil {
			return h, err
		}
	}
}

// rest returns a body with the held beginning and the rest that is not read.
func (h held) rest(body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(h.data), body), body}
}

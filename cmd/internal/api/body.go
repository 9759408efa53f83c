package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// firstRoom is the initial capacity for a body of unknown length, in bytes.
const firstRoom = 16 << 10

// errSlowBody is returned for a body that arrives too slowly.
var errSlowBody = errors.New("body too slow")

// Reasons why a body is not buffered as a whole.
var (
	errBodyTooLarge = errors.New("body too large")
	ErrNoBodyMemory = errors.New("too many request bodies in memory")
)

// BodyPace is the minimum rate of a request body. Each Step bytes, and the rest of the body, must arrive in a Window. Only the time
// that the server waits for the body counts.
type BodyPace struct {
	Step   int
	Window time.Duration
}

// PacedBody is a request body that must arrive with a minimum rate. It sets read deadlines of the connection. At the end of the body it
// removes the deadline, which would otherwise cancel the request later.
type PacedBody struct {
	io.ReadCloser
	deadline func(time.Time) error
	pace     BodyPace
	end      time.Time     // deadline of the whole body; zero for none
	bytes    int           // received in this window
	waited   time.Duration // for the body in this window
	failed   atomic.Bool   // reading failed
	slow     atomic.Bool   // reading failed because the body is too slow
}

// Wrap returns a body that must arrive with the pace, and before end. A zero end is no deadline.
func (p BodyPace) Wrap(w http.ResponseWriter, body io.ReadCloser, end time.Time) *PacedBody {
	return &PacedBody{ReadCloser: body, deadline: http.NewResponseController(w).SetReadDeadline, pace: p, end: end}
}

// Read implements io.Reader. It returns errSlowBody for a slow body.
func (b *PacedBody) Read(p []byte) (int, error) {
	began := time.Now()
	until := began.Add(b.pace.Window - b.waited)
	if !b.end.IsZero() && until.After(b.end) {
		until = b.end
	}
	_ = b.deadline(until) // tests may have no connection
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(began)
	b.bytes += n
	if b.bytes >= b.pace.Step { // begin the next window
		b.bytes, b.waited = 0, 0
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.slow.Store(true)
		b.failed.Store(true)
		return n, errSlowBody
	case err != nil:
		b.failed.Store(!errors.Is(err, io.EOF))
		_ = b.deadline(time.Time{})
	}
	return n, err
}

// Failed reports whether reading the body failed, and whether the reason is a slow body. A handler may see another error first, because
// the server cancels the context of the request when a read fails.
func (b *PacedBody) Failed() (failed, slow bool) { return b.failed.Load(), b.slow.Load() }

// BodyMemory counts the bytes that are reserved for bodies. It is safe for concurrent use.
type BodyMemory struct {
	limit    int64
	reserved atomic.Int64
}

// NewBodyMemory returns a BodyMemory that reserves at most limit bytes.
func NewBodyMemory(limit int64) *BodyMemory { return &BodyMemory{limit: limit} }

// reserve reserves n bytes, or nothing if the limit would be exceeded.
func (m *BodyMemory) reserve(n int64) bool {
	if m.reserved.Add(n) > m.limit {
		m.reserved.Add(-n)
		return false
	}
	return true
}

// Release gives reserved bytes back.
func (m *BodyMemory) Release(n int64) { m.reserved.Add(-n) }

// InUse returns the number of reserved bytes.
func (m *BodyMemory) InUse() int64 { return m.reserved.Load() }

// BufferedBody is a body, or its beginning, in memory that is reserved.
type BufferedBody struct {
	Data   []byte
	Room   int64 // reserved bytes
	Reason error // errBodyTooLarge or ErrNoBodyMemory if Data is only the beginning
}

// Hold reads a body up to its end, until more than limit bytes have arrived, or until the memory has no room left. declared is the length
// of the body, -1 if it is unknown. Room is reserved as bytes arrive, not for the declared length. The caller must release the room, also
// after an error.
func (m *BodyMemory) Hold(body io.Reader, declared, limit int64) (BufferedBody, error) {
	var h BufferedBody
	maxSize := limit + 1 // one more byte, so that the read after the last byte finds the end
	if declared >= 0 {
		maxSize = declared + 1
	}
	for {
		if len(h.Data) == cap(h.Data) {
			if int64(len(h.Data)) > limit {
				h.Reason = errBodyTooLarge
				return h, nil
			}
			size := min(max(2*int64(cap(h.Data)), firstRoom), maxSize)
			if !m.reserve(size - h.Room) {
				h.Reason = ErrNoBodyMemory
				return h, nil
			}
			h.Room = size
			h.Data = append(make([]byte, 0, size), h.Data...)
		}
		n, err := body.Read(h.Data[len(h.Data):cap(h.Data)])
		h.Data = h.Data[:len(h.Data)+n]
		if errors.Is(err, io.EOF) {
			if int64(len(h.Data)) > limit {
				h.Reason = errBodyTooLarge
			}
			return h, nil
		}
		if err != nil {
			return h, err
		}
	}
}

// Whole returns the whole body again: the buffered beginning, then the rest that is not read yet.
func (h BufferedBody) Whole(body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(h.Data), body), body}
}

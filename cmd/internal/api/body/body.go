// Package body reads the bodies of HTTP requests. A body must arrive with a minimum rate, and all bodies together have a memory limit.
package body

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

// ErrSlow is returned for a body that arrives too slowly.
var ErrSlow = errors.New("body too slow")

// Reasons why a body is not buffered as a whole.
var (
	ErrTooLarge = errors.New("body too large")
	ErrNoMemory = errors.New("too many request bodies in memory")
)

// Pace is the minimum rate of a request body. Each Step bytes, and the rest of the body, must arrive in a Window. Only the time that the
// server waits for the body counts.
type Pace struct {
	Step   int
	Window time.Duration
}

// Paced is a request body that must arrive with a minimum rate. It sets read deadlines of the connection. At the end of the body it removes
// the deadline, which would otherwise cancel the request later.
type Paced struct {
	io.ReadCloser
	deadline func(time.Time) error
	pace     Pace
	end      time.Time     // deadline of the whole body; zero for none
	bytes    int           // received in this window
	waited   time.Duration // for the body in this window
	failed   atomic.Bool   // reading failed
	slow     atomic.Bool   // reading failed because the body is too slow
}

// Wrap returns a body that must arrive with the pace, and before end. A zero end is no deadline.
func (p Pace) Wrap(w http.ResponseWriter, body io.ReadCloser, end time.Time) *Paced {
	return &Paced{ReadCloser: body, deadline: http.NewResponseController(w).SetReadDeadline, pace: p, end: end}
}

// Read implements io.Reader. It returns ErrSlow for a slow body.
func (b *Paced) Read(p []byte) (int, error) {
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
		return n, ErrSlow
	case err != nil:
		b.failed.Store(!errors.Is(err, io.EOF))
		_ = b.deadline(time.Time{})
	}
	return n, err
}

// Failed reports whether reading the body failed, and whether the reason is a slow body. A handler may see another error first, because
// the server cancels the context of the request when a read fails.
func (b *Paced) Failed() (failed, slow bool) { return b.failed.Load(), b.slow.Load() }

// Memory counts the bytes that are reserved for bodies. It is safe for concurrent use.
type Memory struct {
	limit    int64
	reserved atomic.Int64
}

// NewMemory returns a Memory that reserves at most limit bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// reserve reserves n bytes, or nothing if the limit would be exceeded.
func (m *Memory) reserve(n int64) bool {
	if m.reserved.Add(n) > m.limit {
		m.reserved.Add(-n)
		return false
	}
	return true
}

// Release gives reserved bytes back.
func (m *Memory) Release(n int64) { m.reserved.Add(-n) }

// InUse returns the number of reserved bytes.
func (m *Memory) InUse() int64 { return m.reserved.Load() }

// Buffered is a body, or its beginning, in memory that is reserved.
type Buffered struct {
	Data   []byte
	Room   int64 // reserved bytes
	Reason error // ErrTooLarge or ErrNoMemory if Data is only the beginning
}

// Hold reads a body up to its end, until more than limit bytes have arrived, or until the memory has no room left. declared is the length
// of the body, -1 if it is unknown. Room is reserved as bytes arrive, not for the declared length. The caller must release the room, also
// after an error.
func (m *Memory) Hold(body io.Reader, declared, limit int64) (Buffered, error) {
	var h Buffered
	maxSize := limit + 1 // one more byte, so that the read after the last byte finds the end
	if declared >= 0 {
		maxSize = declared + 1
	}
	for {
		if len(h.Data) == cap(h.Data) {
			if int64(len(h.Data)) > limit {
				h.Reason = ErrTooLarge
				return h, nil
			}
			size := min(max(2*int64(cap(h.Data)), firstRoom), maxSize)
			if !m.reserve(size - h.Room) {
				h.Reason = ErrNoMemory
				return h, nil
			}
			h.Room = size
			h.Data = append(make([]byte, 0, size), h.Data...)
		}
		n, err := body.Read(h.Data[len(h.Data):cap(h.Data)])
		h.Data = h.Data[:len(h.Data)+n]
		if errors.Is(err, io.EOF) {
			if int64(len(h.Data)) > limit {
				h.Reason = ErrTooLarge
			}
			return h, nil
		}
		if err != nil {
			return h, err
		}
	}
}

// Whole returns the whole body again: the buffered beginning, then the rest that is not read yet.
func (h Buffered) Whole(body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(h.Data), body), body}
}

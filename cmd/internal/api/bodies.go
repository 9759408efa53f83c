package api

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"debrief/events/service"
)

// firstRoom is the initial capacity for a body, in bytes.
const firstRoom = 4 << 10

// errSlow is returned for a body that was dropped because it was too slow.
var errSlow = errors.New("body too slow")

// bodies reserves memory for request bodies as their bytes arrive. A declared length reserves nothing. At the limit,
// it drops the slowest body, so that slow clients do not block the others.
type bodies struct {
	limits limits
	now    func() time.Time // for rates

	mu       sync.Mutex
	freed    sync.Cond
	reserved int64              // reserved by bodies that are read or handled
	reading  map[*body]struct{} // bodies that can be dropped
	leaving  int                // dropped bodies that still hold memory
}

// body is one request body. The fields below began are guarded by bodies.mu.
type body struct {
	deadline func(time.Time) error // sets the read deadline of the connection
	began    time.Time             // by bodies.now
	reserved int64
	received int64
	dropped  bool
}

func newBodies(lim limits) *bodies {
	s := &bodies{limits: lim, now: time.Now, reading: map[*body]struct{}{}}
	s.freed.L = &s.mu
	return s
}

// open registers a body. The caller must call release.
func (s *bodies) open(w http.ResponseWriter) *body {
	b := &body{deadline: http.NewResponseController(w).SetReadDeadline, began: s.now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading[b] = struct{}{}
	return b
}

func (s *bodies) release(b *body) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reading, b)
	s.reserved -= b.reserved
	if b.dropped {
		s.leaving--
	}
	s.freed.Broadcast()
}

// read reads r to its end, or to one byte over most. The buffer doubles up to the declared length, or up to most if
// that is unknown (negative). A body must send limits.step bytes in each limits.window.
func (s *bodies) read(b *body, r io.Reader, declared, maxBytes int64) ([]byte, error) {
	if declared >= 0 {
		maxBytes = declared
	}
	end := time.Now().Add(s.limits.body)
	mark, size := int64(0), min(firstRoom, maxBytes+1)
	if err := s.reserve(b, size); err != nil {
		return nil, err
	}
	data := make([]byte, 0, size)
	s.extend(b, end)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		s.setReceived(b, len(data))
		switch {
		case errors.Is(err, io.EOF):
			return data, s.finish(b)
		case err != nil:
			return nil, errors.Join(err, s.finish(b))
		case int64(len(data)) > maxBytes:
			return data, s.finish(b)
		case int64(len(data))-mark >= s.limits.step:
			mark = int64(len(data))
			s.extend(b, end)
		}
		if len(data) == cap(data) {
			size := min(2*int64(cap(data)), maxBytes+1)
			if err := s.reserve(b, size-int64(cap(data))); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
	}
}

// extend moves the read deadline of a body by one window, but not beyond end.
func (s *bodies) extend(b *body, end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.dropped { // the deadline stays in the past
		return
	}
	until := time.Now().Add(s.limits.window)
	if until.After(end) {
		until = end
	}
	_ = b.deadline(until) // tests may have no deadline
}

func (s *bodies) setReceived(b *body, received int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.received = int64(received)
}

// finish ends the reading of a body. After that it is not dropped.
func (s *bodies) finish(b *body) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reading, b)
	if b.dropped {
		return errSlow
	}
	return nil
}

// reserve reserves n more bytes for a body. It drops slower bodies and waits for their memory, which they release at
// once. It returns service.ErrBusy if all others are faster.
func (s *bodies) reserve(b *body, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !b.dropped && s.reserved+n > s.limits.memory {
		if s.leaving == 0 {
			slowest := s.slowest(s.now())
			if slowest == nil || slowest == b {
				return service.ErrBusy
			}
			slowest.dropped = true
			s.leaving++
			_ = slowest.deadline(time.Unix(1, 0))
			s.freed.Broadcast() // the dropped body may be waiting for memory
		}
		s.freed.Wait()
	}
	if b.dropped {
		return errSlow
	}
	s.reserved += n
	b.reserved += n
	return nil
}

// slowest returns the body with the lowest rate among those older than one window, or nil.
func (s *bodies) slowest(now time.Time) (slowest *body) {
	lowest := 0.0
	for b := range s.reading {
		age := now.Sub(b.began)
		if b.dropped || age < s.limits.window {
			continue
		}
		if rate := float64(b.received) / age.Seconds(); slowest == nil || rate < lowest {
			slowest, lowest = b, rate
		}
	}
	return slowest
}

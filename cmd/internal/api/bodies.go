package api

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"debrief/events/service"
)

// firstRoom is the room that a body gets before its first byte, in bytes.
const firstRoom = 4 << 10

// errSlow is returned when a body was dropped because it was too slow.
var errSlow = errors.New("the body arrives too slowly")

// bodies books the memory of request bodies as their bytes arrive. A declared length books nothing. When
// the memory is used up, the body with the lowest rate is dropped, so that slow clients do not keep out the others.
type bodies struct {
	limits limits
	now    func() time.Time // for rates

	mu      sync.Mutex
	freed   sync.Cond
	held    int64              // booked by bodies that are read or handled
	reading map[*body]struct{} // these can be dropped
	leaving int                // dropped bodies that have not returned their memory yet
}

// body is one request body. The fields below began are guarded by bodies.mu.
type body struct {
	deadline func(time.Time) error // sets the deadline of reads
	began    time.Time             // by bodies.now
	held     int64
	received int64
	dropped  bool
}

func newBodies(most limits) *bodies {
	s := &bodies{limits: most, now: time.Now, reading: map[*body]struct{}{}}
	s.freed.L = &s.mu
	return s
}

// open begins a body. Release returns its memory.
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
	s.held -= b.held
	if b.dropped {
		s.leaving--
	}
	s.freed.Broadcast()
}

// read reads r to its end, or to one byte over most. The room for it doubles up to the declared length, or to most where
// the length is unknown (negative). A body must bring limits.step bytes in each limits.window.
func (s *bodies) read(b *body, r io.Reader, declared, most int64) ([]byte, error) {
	if declared >= 0 {
		most = declared
	}
	end := time.Now().Add(s.limits.body)
	mark, size := int64(0), min(firstRoom, most+1)
	if err := s.book(b, size); err != nil {
		return nil, err
	}
	data := make([]byte, 0, size)
	s.extend(b, end)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		s.note(b, len(data))
		switch {
		case errors.Is(err, io.EOF):
			return data, s.finish(b)
		case err != nil:
			return nil, errors.Join(err, s.finish(b))
		case int64(len(data)) > most:
			return data, s.finish(b)
		case int64(len(data))-mark >= s.limits.step:
			mark = int64(len(data))
			s.extend(b, end)
		}
		if len(data) == cap(data) {
			size := min(2*int64(cap(data)), most+1)
			if err := s.book(b, size-int64(cap(data))); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
	}
}

// extend gives the next step of a body one more window, but not beyond end.
func (s *bodies) extend(b *body, end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.dropped { // its deadline is in the past, for good
		return
	}
	until := time.Now().Add(s.limits.window)
	if until.After(end) {
		until = end
	}
	_ = b.deadline(until) // a connection that has none is a test's
}

func (s *bodies) note(b *body, received int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.received = int64(received)
}

// finish ends the reading of a body: from now on it is not dropped.
func (s *bodies) finish(b *body) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reading, b)
	if b.dropped {
		return errSlow
	}
	return nil
}

// book reserves n more bytes for a body. It drops slower bodies to make room and waits for their memory, which they return
// at once. ErrBusy is returned when all others are faster.
func (s *bodies) book(b *body, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !b.dropped && s.held+n > s.limits.held {
		if s.leaving == 0 {
			slowest := s.slowest(s.now())
			if slowest == nil || slowest == b {
				return service.ErrBusy
			}
			slowest.dropped = true
			s.leaving++
			_ = slowest.deadline(time.Unix(1, 0))
			s.freed.Broadcast() // it may wait for memory itself
		}
		s.freed.Wait()
	}
	if b.dropped {
		return errSlow
	}
	s.held += n
	b.held += n
	return nil
}

// slowest is the body with the lowest rate among those that have been read for longer than one window, nil if there is
// none.
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

package body

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestHoldBody(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	for _, test := range []struct {
		name     string
		size     int
		declared int64
		memory   int64
		reason   error
		room     int64
	}{
		{"empty", 0, 0, limit, nil, 1},
		{"small", 1, 1, limit, nil, 2},
		{"small, unknown length", 1, -1, limit, nil, firstRoom},
		{"doubles up to the declared length", 20 << 10, 20 << 10, limit, nil, 20<<10 + 1},
		{"as large as possible", limit, -1, 2 * limit, nil, limit + 1},
		{"one byte more", limit + 1, -1, 2 * limit, ErrTooLarge, limit + 1},
		{"no memory", firstRoom + 1, -1, firstRoom + 1, ErrNoMemory, firstRoom},
		{"no memory at all", 1, 1, 1, ErrNoMemory, 0},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"at once":            func(r io.Reader) io.Reader { return r },
			"with EOF":           iotest.DataErrReader,
			"in pieces":          iotest.HalfReader,
			"in smallest pieces": iotest.OneByteReader,
		} {
			m := NewMemory(test.memory)
			body := strings.Repeat("x", test.size)
			source := wrap(strings.NewReader(body))
			h, err := m.Hold(source, test.declared, limit)
			if err != nil || h.Reason != test.reason || h.Room != test.room || m.InUse() != h.Room || int64(cap(h.Data)) > h.Room {
				t.Errorf("%s, %s: got %v, room %d, held %d, capacity %d, %v, want %v, room %d", test.name, name, h.Reason, h.Room, m.InUse(), cap(h.Data), err, test.reason, test.room)
			}
			if all, err := io.ReadAll(h.Whole(io.NopCloser(source))); err != nil || string(all) != body {
				t.Errorf("%s, %s: the rest is different: %d bytes, %v", test.name, name, len(all), err)
			}
		}
	}
	m := NewMemory(limit)
	if h, err := m.Hold(iotest.ErrReader(ErrSlow), -1, limit); !errors.Is(err, ErrSlow) || h.Room != firstRoom {
		t.Errorf("got %v, room %d", err, h.Room)
	}
}

// TestPaceOfBodies checks the deadlines of a body: they move with each step, and end with the body.
func TestPaceOfBodies(t *testing.T) {
	t.Parallel()
	var left []time.Duration // time until each deadline, -1 for none
	deadline := func(at time.Time) error {
		if at.IsZero() {
			left = append(left, -1)
			return nil
		}
		left = append(left, time.Until(at).Round(time.Minute))
		return nil
	}
	next := func(n int, err error, waited time.Duration, bytes int) *Paced {
		read := func(p []byte) (int, error) { return n, err }
		return &Paced{ReadCloser: io.NopCloser(reader(read)), deadline: deadline, pace: Pace{8, time.Hour}, waited: waited, bytes: bytes}
	}
	for _, test := range []struct {
		name   string
		body   *Paced
		err    error
		waits  bool // the time counts on
		before time.Duration
		after  time.Duration // 0: not changed
	}{
		{"a byte", next(1, nil, time.Minute, 0), nil, true, 59 * time.Minute, 0},
		{"a step", next(1, nil, time.Minute, 7), nil, false, 59 * time.Minute, 0},
		{"the end", next(1, io.EOF, 0, 0), io.EOF, true, time.Hour, -1},
		{"too slow", next(0, os.ErrDeadlineExceeded, 0, 0), ErrSlow, true, time.Hour, 0},
	} {
		left = nil
		_, err := test.body.Read(make([]byte, 10))
		if !errors.Is(err, test.err) || (test.body.waited > 0) != test.waits || left[0] != test.before {
			t.Errorf("%s: got %v, waited %s, deadline %s", test.name, err, test.body.waited, left[0])
		}
		if test.after == 0 && len(left) > 1 || test.after != 0 && left[1] != test.after {
			t.Errorf("%s: got deadlines %v", test.name, left)
		}
	}
}

// reader is an io.Reader as a function.
type reader func([]byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events/service"
)

// upload is a request whose body is sent piece by piece.
type upload struct {
	net.Conn
	in *bufio.Reader
}

// begin declares a body of length bytes, waits until the server reads it, and sends its first bytes.
func begin(t *testing.T, s *Server, length int, first string) *upload {
	t.Helper()
	conn := raw(t, s, fmt.Sprintf("POST /api/v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", length))
	u := &upload{conn, bufio.NewReader(conn)}
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		if line, err := u.in.ReadString('\n'); err != nil || line != want {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
	}
	u.send(t, first)
	return u
}

func (u *upload) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(u, text); err != nil {
		t.Fatal(err)
	}
}

// code returns the status of the response.
func (u *upload) code(t *testing.T) int {
	t.Helper()
	resp, err := http.ReadResponse(u.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// declared is the largest length that the server accepts.
var declared = service.MaxBodyBytes("execution")

// padded returns a report of n bytes.
func padded(n int) string { return "{" + strings.Repeat(" ", n-2) + "}" }

// TestSlowRequestsDoNotCloseTheServer: a declared length reserves no memory.
func TestSlowRequestsDoNotCloseTheServer(t *testing.T) {
	t.Parallel()
	s, c := open(t, desk{}, Options{}, defaultLimits)
	for range 100 {
		begin(t, s, declared, "{")
	}
	for range 3 {
		if code, _, body := do(t, c, "POST", s.URL()+"/api/v1/executions", padded(1<<20)); code != 201 {
			t.Errorf("beside 100 slow requests: got %d %s, want 201", code, body)
		}
	}
}

// TestSlowestBodyIsDroppedFirst fills the memory with slow bodies. A new request replaces them; a faster body with
// more memory stays.
func TestSlowestBodyIsDroppedFirst(t *testing.T) {
	t.Parallel()
	const slow, large = 8, 40 << 10
	most := defaultLimits
	most.window = patience // no body reaches its deadline
	most.memory = slow*firstRoom + 64<<10
	s, c := open(t, desk{}, Options{}, most)
	var passed atomic.Int64
	began := time.Now()
	held(s).now = func() time.Time { return began.Add(time.Duration(passed.Load())) }

	var all []*upload
	for range slow {
		all = append(all, begin(t, s, declared, "{"))
	}
	fast := begin(t, s, large+1, "{"+strings.Repeat(" ", large-1))
	until(t, s, func(b *bodies) bool { return b.reserved == slow*firstRoom+large+2 })

	if code, _, body := do(t, c, "POST", s.URL()+"/api/v1/executions", padded(1<<16)); code != 503 {
		t.Errorf("while all are young: got %d %s, want 503", code, body)
	}
	passed.Store(int64(2 * most.window))
	if code, _, body := do(t, c, "POST", s.URL()+"/api/v1/executions", padded(1<<15)); code != 201 {
		t.Errorf("beside old slow bodies: got %d %s, want 201", code, body)
	}
	fast.send(t, "}")
	if code := fast.code(t); code != 201 {
		t.Errorf("the faster body: got %d, want 201", code)
	}
	dropped := 0
	until(t, s, func(b *bodies) bool { dropped = slow - len(b.reading); return b.leaving == 0 })
	if dropped == 0 {
		t.Error("no body was dropped")
	}
	codes := make(chan int, slow)
	for _, u := range all { // they are equally slow, so any of them may be dropped
		go func() {
			if resp, err := http.ReadResponse(u.in, nil); err == nil {
				_ = resp.Body.Close()
				codes <- resp.StatusCode
			}
		}()
	}
	for range dropped {
		if code := <-codes; code != 408 {
			t.Errorf("a dropped body: got %d, want 408", code)
		}
	}
}

// TestBodyRate: a body that stops is dropped after a window, even if it was fast before. A body with a step in each
// window is not.
func TestBodyRate(t *testing.T) {
	t.Parallel()
	most := defaultLimits
	most.window, most.step = 200*time.Millisecond, 1<<10
	s, _ := open(t, desk{}, Options{}, most)
	stops := begin(t, s, declared, "{"+strings.Repeat(" ", 1<<20))
	if code := stops.code(t); code != 408 {
		t.Errorf("a body that stops: got %d, want 408", code)
	}
	b := newBodies(most)
	var deadlines []time.Time
	keeps := &body{deadline: func(at time.Time) error { deadlines = append(deadlines, at); return nil }, began: b.now()}
	if _, err := b.read(keeps, &pieces{1 << 10, 5}, -1, 1<<20); err != nil {
		t.Fatal(err)
	}
	if len(deadlines) != 6 {
		t.Errorf("got %d deadlines for 5 steps, want 6", len(deadlines))
	}
	deadlines = nil
	if _, err := b.read(keeps, &pieces{1, 1000}, -1, 1<<20); err != nil {
		t.Fatal(err)
	}
	if len(deadlines) != 1 {
		t.Errorf("got %d deadlines for less than a step, want 1", len(deadlines))
	}
}

// pieces returns a body of n pieces of equal size.
type pieces struct{ size, left int }

func (p *pieces) Read(to []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	p.left--
	return min(p.size, len(to)), nil
}

func held(s *Server) *bodies { return s.http.Handler.(*handler).bodies }

// until waits until the condition holds.
func until(t *testing.T, s *Server, holds func(*bodies) bool) {
	t.Helper()
	b := held(s)
	for ctx := t.Context(); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		ok := holds(b)
		b.mu.Unlock()
		if ok || ctx.Err() != nil {
			return
		}
	}
}

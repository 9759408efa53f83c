package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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

// TestMemoryOfBodies fills the memory with slow bodies: further requests get 503 until it is free again.
func TestMemoryOfBodies(t *testing.T) {
	t.Parallel()
	most := defaultLimits
	most.memory = 64 << 10
	s, c := open(t, desk{}, Options{}, most)
	var slow []*upload
	for range 3 {
		slow = append(slow, begin(t, s, declared, "{"))
	}
	memory := s.http.Config.Handler.(*handler).bodies.Memory
	eventually(t, func() error {
		if memory.InUse() < most.memory*3/4 {
			return fmt.Errorf("%d bytes are held", memory.InUse())
		}
		return nil
	})
	if code, _, body := do(t, c, "POST", s.URL()+"/api/v1/executions", padded(40<<10)); code != 503 {
		t.Errorf("beside slow bodies: got %d %s, want 503", code, body)
	}
	for _, u := range slow {
		_ = u.Close()
	}
	eventually(t, func() error {
		if code, _, body := do(t, c, "POST", s.URL()+"/api/v1/executions", padded(40<<10)); code != 201 {
			return fmt.Errorf("after them: got %d %s, want 201", code, body)
		}
		return nil
	})
}

// TestBodyRate: a body that stops is dropped after a window, even if it was fast before.
func TestBodyRate(t *testing.T) {
	t.Parallel()
	most := defaultLimits
	most.pace.Window = 200 * time.Millisecond
	s, _ := open(t, desk{}, Options{}, most)
	stops := begin(t, s, declared, "{"+strings.Repeat(" ", 1<<20))
	if code := stops.code(t); code != 408 {
		t.Errorf("a body that stops: got %d, want 408", code)
	}
}

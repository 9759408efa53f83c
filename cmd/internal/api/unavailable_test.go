package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/api/index"
	"debrief/events/bus"
	"debrief/events/natsd"
)

// TestReadsWithoutServer: while there is no connection to the NATS server, reads fail with one reason, and routes that need no server
// still answer.
func TestReadsWithoutServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	srv, err := natsd.Start(natsd.Config{Sync: "1m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect(nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := New(nil, Options{Conn: conn, Index: index.New(conn, nil)})
	get := func(path string) (int, Code) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+prefix+path, nil)
		h.ServeHTTP(w, r)
		var p struct {
			Code Code `json:"code"`
		}
		_ = json.Unmarshal(w.Body.Bytes(), &p) // another document has no code
		return w.Code, p.Code
	}
	if status, code := get("/books"); status != http.StatusOK {
		t.Fatalf("with a server: got %d %q", status, code)
	}
	srv.Close()
	for end := time.Now().Add(patience); nc.IsConnected(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is not lost")
		}
	}
	for path, want := range map[string]int{
		"/books": http.StatusServiceUnavailable, "/books/b/bullets": http.StatusServiceUnavailable, "/status": http.StatusServiceUnavailable,
		"/settings": http.StatusOK, "/token": http.StatusOK, "/openapi.json": http.StatusOK,
	} {
		status, code := get(path)
		if status != want || want != http.StatusOK && code != CodeUnavailable {
			t.Errorf("%s: got %d %q, want %d", path, status, code, want)
		}
	}
}

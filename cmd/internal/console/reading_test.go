package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPageWhileServerReads: a server that has just started and cannot answer yet sends a page at once that says so, and loads itself again.
// Later pages have a notice until everything is read.
func TestPageWhileServerReads(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	var blocks atomic.Bool
	blocks.Store(true)
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/token"):
			_, _ = w.Write([]byte(`{"name": "local", "scopes": ["read"], "local": true, "reading": true}`))
		case blocks.Load():
			<-r.Context().Done()
		default:
			in.open.Config.Handler.ServeHTTP(w, r)
		}
	})
	server := httptest.NewServer(New(Options{API: api, Log: failures}))
	defer server.Close()
	for _, path := range []string{"/", "/books/default", "/settings"} {
		got := get(t, server, path)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Refresh") == "" || !strings.Contains(got.body, "reads the stored data") {
			t.Errorf("%s: got status %d, Refresh %q: %s", path, got.status, got.header.Get("Refresh"), got.body)
		}
	}
	blocks.Store(false)
	eventually(t, func() error { // the machine may be busy
		got := get(t, server, "/books/default")
		if got.status != http.StatusOK {
			return http.ErrServerClosed
		}
		if !strings.Contains(got.body, "inv-00001") || !strings.Contains(got.body, "the numbers grow") {
			t.Errorf("a page while the server reads: %s", got.body)
		}
		return nil
	})
}

package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPageWhileServerReads: the pages of a server that has just started have a notice until everything is read.
func TestPageWhileServerReads(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/token") {
			_, _ = w.Write([]byte(`{"name": "local", "scopes": ["read"], "local": true, "reading": true}`))
			return
		}
		in.open.Config.Handler.ServeHTTP(w, r)
	})
	server := httptest.NewServer(New(Options{API: api, Log: failures}))
	defer server.Close()
	got := get(t, server, "/books/default")
	if got.status != http.StatusOK || !strings.Contains(got.body, "inv-00001") || !strings.Contains(got.body, "the numbers grow") {
		t.Errorf("got status %d: %s", got.status, got.body)
	}
}

package program

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProbeReportsReadiness(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	for _, at := range []string{address, "0.0.0.0:" + port, "[::]:" + port, ":" + port} {
		if err := (Health{Health: at}).probe(t.Context()); err != nil {
			t.Errorf("%s: got %v, want that it is ready", at, err)
		}
	}
	status = http.StatusServiceUnavailable
	if err := (Health{Health: address}).probe(t.Context()); ExitCode(err) != ExitFailed || !strings.Contains(err.Error(), "503") {
		t.Errorf("not ready: got %v", err)
	}
	server.Close()
	if err := (Health{Health: address}).probe(t.Context()); ExitCode(err) != ExitFailed {
		t.Errorf("gone: got %v", err)
	}
	for _, at := range []string{"", "nowhere"} {
		if err := (Health{Health: at}).probe(t.Context()); ExitCode(err) != ExitUsage {
			t.Errorf("--health %q: got %v, want a usage error", at, err)
		}
	}
}

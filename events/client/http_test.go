package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"debrief/events"
)

// TestRedirectIsRefused: another server gets neither the token nor the request.
func TestRedirectIsRefused(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was redirected") }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		c := HTTP(s.URL, "secret")
		_, err := c.transport.send(t.Context(), &message{verb: events.VerbContext, body: []byte("{}")})
		if failed := new(Error); !errors.As(err, &failed) || failed.Code != status {
			t.Errorf("%d: got %v", status, err)
		}
		s.Close()
	}
}

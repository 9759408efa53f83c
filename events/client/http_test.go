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

// TestInvalidAddress: no request was sent, another attempt fails too, and an agent must not go on without advice for ever.
func TestInvalidAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:14280": "context: address: needs http:// or https://",
		"http://a b":      `context: address: parse "http://a b/api/v1/contexts": invalid character " " in host name`,
	} {
		_, err := HTTP(address, "").Run(t.Context(), &events.ContextRequest{Query: "q"})
		failed := new(Error)
		if !errors.As(err, &failed) || failed.Code != 0 || !failed.Invalid() || failed.Unavailable() || err.Error() != want {
			t.Errorf("%s: got %v, want %q without a status", address, err, want)
		}
	}
}

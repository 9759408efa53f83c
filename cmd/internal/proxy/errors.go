package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"debrief/events"
	"debrief/playbook/text"
)

// CodeCut is the code of an Observation whose response was cut, by the upstream or by the client.
const CodeCut = "cut"

// failure is an error of the gateway itself, and the response to the request that it refuses.
type failure struct {
	status  int    // of HTTP
	code    string // of headerError: see the list in doc.go
	message string
}

func newFailure(status int, code, message string) *failure { return &failure{status, code, message} }

// body returns the failure in the shape of the provider's API. Anthropic's shape has no place for a code.
func (f *failure) body(p Provider) []byte {
	detail := map[string]any{"message": "debrief gateway: " + f.message, "type": errorType(p, f.status)}
	body := map[string]any{"error": detail}
	if p == Anthropic {
		body["type"] = "error"
	} else {
		detail["code"], detail["param"] = f.code, nil
	}
	b, _ := json.Marshal(body) // texts always have a JSON form
	return append(b, '\n')
}

// anthropicErrors are the types of errors that only Anthropic's API has, by HTTP status.
var anthropicErrors = map[int]string{
	401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 504: "timeout_error", 529: "overloaded_error",
}

// errorType returns the type of an error with a status.
func errorType(p Provider, status int) string {
	own := anthropicErrors[status]
	switch {
	case p == Anthropic && own != "":
		return own
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status < 500:
		return "invalid_request_error"
	case p == Anthropic:
		return "api_error"
	}
	return "server_error"
}

// writeFailure answers with a failure.
func (g *Gateway) writeFailure(w http.ResponseWriter, r *http.Request, x *exchange, f *failure) {
	x.respond(f.status)
	x.code = f.code
	body := f.body(x.route.provider)
	h := w.Header()
	clear(h)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Request-Id", requestID(r.Header.Get("X-Request-Id")))
	h.Set(headerError, f.code)
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="debrief"`)
	}
	if f.status == http.StatusMethodNotAllowed {
		h.Set("Allow", strings.Join(methods, ", "))
	}
	if f.status == http.StatusUpgradeRequired {
		h.Set("Upgrade", "HTTP/1.1")
	}
	if f.status == http.StatusRequestTimeout {
		h.Set("Connection", "close")
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(body) // ignore the error: the client has disconnected
}

// requestID returns the id of the client if it is valid, else a random one.
func requestID(id string) string {
	invisible := strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
	if id == "" || len(id) > 128 || invisible {
		return string(events.NewID())
	}
	return id
}

// finish logs a request and reports it to the observer.
func (g *Gateway) finish(r *http.Request, x *exchange) {
	took := time.Since(x.began)
	g.o.Log.Debug().Str("method", text.Prefix(r.Method, 16)).Str("path", text.Clip(r.URL.Path, 64)).Str("class", string(x.class)).
		Int("status", x.status).Str("error", x.code).Str("degraded", x.degraded.code).Dur("took", took).Msg("request")
	g.o.Observe(Observation{
		Class: x.class, Book: x.book, Status: x.status, Header: x.header, Total: took,
		Degraded: x.degraded.code, Error: x.code, Work: x.isWork(), Uncaptured: x.uncaptured(),
	})
}

package api

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/service"
	"debrief/playbook/text"
)

// httpHandler handles HTTP requests.
type httpHandler struct {
	handler *service.Handler
	token   *[sha256.Size]byte // hash of the token, nil without one
	bodies  *bodies
	told    service.Observer
	log     zerolog.Logger
}

func newHTTPHandler(backend service.Backend, o Options, lim limits) *httpHandler {
	d := &httpHandler{handler: service.NewHandler(backend, o.Log), bodies: newBodies(lim), told: o.OnResponse, log: o.Log}
	if o.Token != "" {
		hash := sha256.Sum256([]byte(o.Token))
		d.token = &hash
	}
	return d
}

var routes = []struct{ path, verb string }{
	{"/v1/context", events.VerbContext},
	{"/v1/executions", events.VerbReport},
	{"/v1/feedback", events.VerbFeedback},
}

// ServeHTTP implements http.Handler.
func (d *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	a, err := d.handle(w, r)
	if err != nil {
		a = service.ErrorResponse(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if after := a.RetryAfter(); after != "" {
		h.Set("Retry-After", after)
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body) // ignore the error: the client has disconnected
	d.log.Debug().Str("method", r.Method).Str("path", text.Clip(r.URL.Path, 64)).
		Int("status", a.Code).Dur("took", time.Since(began)).Msg("request")
	if d.told != nil {
		d.told(verbOf(r.URL.Path), a.Code, time.Since(began))
	}
}

// verbOf returns the verb for a path, "" for an unknown path.
func verbOf(path string) string {
	for _, route := range routes {
		if path == route.path {
			return route.verb
		}
	}
	return ""
}

func (d *httpHandler) handle(w http.ResponseWriter, r *http.Request) (service.Response, error) {
	if err := d.authorize(w, r); err != nil {
		return service.Response{}, err
	}
	if r.URL.Path == "/v1/" || r.URL.Path == "/v1" {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return service.Response{}, notAllowed(w, "GET, HEAD")
		}
		return index(), nil
	}
	verb := verbOf(r.URL.Path)
	switch {
	case verb == "":
		return service.Response{}, service.NewError(http.StatusNotFound, "unknown path: GET /v1/ lists the endpoints")
	case r.Method != http.MethodPost:
		return service.Response{}, notAllowed(w, http.MethodPost)
	}
	if err := checkJSON(r.Header); err != nil {
		return service.Response{}, err
	}
	maxBytes := int64(service.MaxBodyBytes(verb))
	if r.ContentLength > maxBytes {
		return service.Response{}, service.TooLargeError(verb) // without reading the body
	}
	b := d.bodies.open(w)
	defer d.bodies.release(b)
	body, err := d.bodies.read(b, r.Body, r.ContentLength, maxBytes)
	switch {
	case errors.Is(err, service.ErrBusy):
		w.Header().Set("Connection", "close")
		return service.Response{}, err
	case errors.Is(err, errSlow), errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return service.Response{}, service.NewError(http.StatusRequestTimeout, "body too slow")
	case err != nil:
		return service.Response{}, service.NewError(http.StatusBadRequest, "incomplete body")
	case int64(len(body)) > maxBytes:
		return service.Response{}, service.TooLargeError(verb)
	}
	return d.handler.Handle(bus.ContextWithTrace(r.Context(), r.Header.Get(events.HeaderTrace)), verb, "", body), nil
}

// authorize checks the token, or the Host header if there is no token.
func (d *httpHandler) authorize(w http.ResponseWriter, r *http.Request) error {
	if d.token == nil {
		if !loopback(r.Host) {
			return service.NewError(http.StatusMisdirectedRequest, "without a token, the Host header must be a loopback name such as 127.0.0.1")
		}
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Compare hashes, because ConstantTimeCompare needs equal lengths.
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(hash[:], d.token[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+service.Name+`"`)
		return service.NewError(http.StatusUnauthorized, "missing or wrong token: want the header Authorization: Bearer TOKEN")
	}
	return nil
}

// loopback reports whether a Host header names the loopback, with or without a port.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// checkJSON returns an error for a body whose headers do not declare plain JSON.
func checkJSON(h http.Header) error {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/json" || !strings.EqualFold(cmp.Or(params["charset"], "utf-8"), "utf-8") {
		return service.NewError(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return service.NewError(http.StatusUnsupportedMediaType, "want the body without Content-Encoding")
	}
	return nil
}

func notAllowed(w http.ResponseWriter, methods string) error {
	w.Header().Set("Allow", methods)
	return service.NewError(http.StatusMethodNotAllowed, "want "+methods)
}

// index returns the list of endpoints.
func index() service.Response {
	type endpoint struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		Limit  int    `json:"max_bytes"`
	}
	var all []endpoint
	for _, route := range routes {
		all = append(all, endpoint{http.MethodPost, route.path, service.MaxBodyBytes(route.verb)})
	}
	body, _ := json.Marshal(struct { // strings and numbers cannot fail
		Service   string     `json:"service"`
		Version   string     `json:"version"`
		Endpoints []endpoint `json:"endpoints"`
	}{service.Name, service.Version, all})
	return service.Response{Code: http.StatusOK, Body: append(body, '\n')}
}

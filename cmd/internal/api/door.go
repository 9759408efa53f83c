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
)

// door answers HTTP requests.
type door struct {
	handler *service.Handler
	token   *[sha256.Size]byte // the token's hash, nil where none is wanted
	bodies  *bodies
	told    service.Told
	log     zerolog.Logger
}

func newDoor(desk service.Desk, o Options, most limits) *door {
	d := &door{handler: service.NewHandler(desk, o.Log), bodies: newBodies(most), told: o.Told, log: o.Log}
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
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	a, err := d.answer(w, r)
	if err != nil {
		a = service.Refused(err)
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
	_, _ = w.Write(a.Body) // a client that is gone needs no answer
	d.log.Debug().Str("method", r.Method).Str("path", events.Beginning(r.URL.Path, 64)).
		Int("status", a.Code).Dur("took", time.Since(began)).Msg("request")
	if d.told != nil {
		d.told(verbOf(r.URL.Path), a.Code, time.Since(began))
	}
}

// verbOf is what a path asks for, "" for nothing that there is.
func verbOf(path string) string {
	for _, route := range routes {
		if path == route.path {
			return route.verb
		}
	}
	return ""
}

func (d *door) answer(w http.ResponseWriter, r *http.Request) (service.Answer, error) {
	if err := d.admit(w, r); err != nil {
		return service.Answer{}, err
	}
	if r.URL.Path == "/v1/" || r.URL.Path == "/v1" {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return service.Answer{}, notAllowed(w, "GET, HEAD")
		}
		return index(), nil
	}
	verb := verbOf(r.URL.Path)
	switch {
	case verb == "":
		return service.Answer{}, service.Refuse(http.StatusNotFound, "there is nothing here: GET /v1/ says what there is")
	case r.Method != http.MethodPost:
		return service.Answer{}, notAllowed(w, http.MethodPost)
	}
	if err := isJSON(r.Header); err != nil {
		return service.Answer{}, err
	}
	most := int64(service.Limit(verb))
	if r.ContentLength > most {
		return service.Answer{}, service.TooLarge(verb) // unread
	}
	b := d.bodies.open(w)
	defer d.bodies.release(b)
	body, err := d.bodies.read(b, r.Body, r.ContentLength, most)
	switch {
	case errors.Is(err, service.ErrBusy):
		w.Header().Set("Connection", "close")
		return service.Answer{}, err
	case errors.Is(err, errSlow), errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return service.Answer{}, service.Refuse(http.StatusRequestTimeout, "the body came too slowly")
	case err != nil:
		return service.Answer{}, service.Refuse(http.StatusBadRequest, "the body could not be read to its end")
	case int64(len(body)) > most:
		return service.Answer{}, service.TooLarge(verb)
	}
	return d.handler.Handle(bus.Traced(r.Context(), r.Header.Get(events.HeaderTrace)), verb, "", body), nil
}

// admit says why a request is not to be looked at any further.
func (d *door) admit(w http.ResponseWriter, r *http.Request) error {
	if d.token == nil {
		if !loopback(r.Host) {
			return service.Refuse(http.StatusMisdirectedRequest, "without a token only names of the loopback are answered to, such as 127.0.0.1")
		}
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Hashes, because the comparison takes the same time only for the same length.
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(hash[:], d.token[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+service.Name+`"`)
		return service.Refuse(http.StatusUnauthorized, "want Authorization: Bearer and the service's token")
	}
	return nil
}

// loopback reports whether the Host header of a request names this machine's loopback, with or without a port.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// isJSON refuses bodies that do not say that they are plain JSON.
func isJSON(h http.Header) error {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/json" || !strings.EqualFold(cmp.Or(params["charset"], "utf-8"), "utf-8") {
		return service.Refuse(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return service.Refuse(http.StatusUnsupportedMediaType, "want the body without Content-Encoding")
	}
	return nil
}

func notAllowed(w http.ResponseWriter, methods string) error {
	w.Header().Set("Allow", methods)
	return service.Refuse(http.StatusMethodNotAllowed, "want "+methods)
}

// index says what there is.
func index() service.Answer {
	type endpoint struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		Limit  int    `json:"max_bytes"`
	}
	var all []endpoint
	for _, route := range routes {
		all = append(all, endpoint{http.MethodPost, route.path, service.Limit(route.verb)})
	}
	body, _ := json.Marshal(struct { // strings and numbers cannot fail
		Service   string     `json:"service"`
		Version   string     `json:"version"`
		Endpoints []endpoint `json:"endpoints"`
	}{service.Name, service.Version, all})
	return service.Answer{Code: http.StatusOK, Body: append(body, '\n')}
}

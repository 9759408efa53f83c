package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/service"
	"debrief/playbook"
)

// Path is the path of the handler. The name of the playbook follows.
const Path = "/mcp/"

// Limits of requests.
const (
	maxInFlight = 64               // requests at a time
	bodyTimeout = 30 * time.Second // for reading the body
)

// Handler serves playbooks over Streamable HTTP, without sessions, so that any replica serves any request. It is safe for concurrent use.
type Handler struct {
	api   *api.Client // calls the API in this process
	slots chan struct{}
	mcp   http.Handler
}

// NewHandler returns the handler of the paths below Path. It calls the handler of the API for each tool.
func NewHandler(served http.Handler) *Handler {
	options := &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		MaxRequestBodyBytes:        int64(service.MaxBodyBytes(events.VerbReport)),
		DisableLocalhostProtection: true, // the API checks the Host header, and with tokens a proxy may be in front
	}
	find := func(r *http.Request) *mcp.Server {
		server, _ := r.Context().Value(serverKey{}).(*mcp.Server)
		return server
	}
	return &Handler{api: api.InProcess(served), slots: make(chan struct{}, maxInFlight), mcp: mcp.NewStreamableHTTPHandler(find, options)}
}

// serverKey is the key of the server of a request in its context.
type serverKey struct{}

// ServeHTTP implements http.Handler. The tools and resources serve the playbook in the path of the request, with its token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		writeProblem(w, &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable, Detail: "too many requests are in progress"})
		return
	}
	book := playbook.Book(strings.TrimPrefix(r.URL.Path, Path))
	if err := events.ValidateBook(book); err != nil {
		writeProblem(w, &api.Problem{Status: http.StatusNotFound, Code: api.CodeNoRoute, Field: "book", Detail: fmt.Sprintf("want %s and the name of a playbook: %v", Path, err)})
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // a test may have no connection
	client := h.api.OnBehalf(r, tokens.SecretOf(r.Header))
	if problem := authenticate(r.Context(), client); problem != nil {
		writeProblem(w, problem)
		return
	}
	h.mcp.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, newServer(client, book))))
}

// authenticate returns the problem of the API with the sender of a request, or nil. Each tool checks the scopes.
func authenticate(ctx context.Context, c *api.Client) *api.Problem {
	_, err := api.Get[struct{}](ctx, c, "/token", nil)
	var refused *api.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &refused.Problem
	}
	return &api.Problem{Status: http.StatusInternalServerError, Code: api.CodeInternal, Detail: "the API did not answer"}
}

// writeProblem writes an error as the API does.
func writeProblem(w http.ResponseWriter, p *api.Problem) {
	p.Title = http.StatusText(p.Status)
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+service.Name+`"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // ignore the error: the client has disconnected
}

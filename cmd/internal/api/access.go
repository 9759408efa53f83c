package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/service"
	"debrief/playbook"
)

// authenticate returns the token of a request. Without tokens it checks instead that the request comes from this machine and
// not from a page of another site. A handler inside a command checks nothing: every request has its field commandToken.
func (h *handler) authenticate(w http.ResponseWriter, r *http.Request) (*tokens.Token, error) {
	if h.commandToken != nil {
		return h.commandToken, nil
	}
	if h.tokens == nil {
		if !IsLoopback(r.Host) {
			return nil, service.NewError(http.StatusMisdirectedRequest, "without tokens, the Host header must be a loopback name such as 127.0.0.1")
		}
		if err := h.checkOrigin(r); err != nil {
			return nil, err
		}
	}
	t, err := h.tokens.Of(r.Header, r.RemoteAddr) // without tokens (h.tokens is nil) it is the local token
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+service.Name+`"`)
		return nil, service.NewError(http.StatusUnauthorized, err.Error())
	}
	if len(t.Proxies) > 0 { // the browser sends the session of the proxy by itself, also for pages of other sites
		return t, h.checkOrigin(r)
	}
	return t, nil
}

// checkOrigin returns an error if a request that changes something comes from a page of another site.
func (h *handler) checkOrigin(r *http.Request) error {
	if h.origins.Check(r) == nil {
		return nil
	}
	return forbidden(CodeOrigin, "the request comes from a page of another site")
}

// authorize returns an error if the token of a call does not permit the route or the book in its path.
func (c *call) authorize() error {
	rt := c.route
	isPublic := rt.scope == "" || rt.ownRuns // a route of own runs checks the owner itself
	hasScope := c.token.Allows(rt.scope) || rt.orScope != "" && c.token.Allows(rt.orScope)
	if !isPublic && !hasScope {
		return forbidden(CodeScope, fmt.Sprintf("token %q does not have the scope %q", c.token.Name, rt.scope))
	}
	if c.book() == "" { // the path has no playbook
		return nil
	}
	return c.checkBookField(c.book())
}

// checkBookField returns an error if the field or parameter book has an invalid name, or one that the token does not permit.
func (c *call) checkBookField(b playbook.Book) error {
	if err := events.ValidateBook(b); err != nil {
		return invalid("book", err.Error())
	}
	return c.checkPermitted(b)
}

// checkPermitted returns an error if the token does not permit a book.
func (c *call) checkPermitted(b playbook.Book) error {
	if c.token.AllowsBook(b) {
		return nil
	}
	return forbidden(CodeBook, fmt.Sprintf("token %q does not permit playbook %q", c.token.Name, b))
}

// IsLoopback reports whether a Host header names the loopback, with or without a port.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

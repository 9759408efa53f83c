package gateway

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook"
)

// Tokens finds the tokens of callers.
type Tokens interface {
	// Find returns the token with a secret. It is safe for concurrent use.
	Find(secret string) (Token, bool)
}

// Token is the access of a caller.
type Token struct {
	Caller  events.Caller
	Calls   bool            // it may make model calls
	Reports bool            // it may report runs, and so set outcomes
	Books   []playbook.Book // empty means all books
}

// checkBrowser refuses requests that a web page could cause. With tokens no check is needed, because a page has none.
func (g *Gateway) checkBrowser(r *http.Request) *failure {
	if g.o.Tokens != nil {
		return nil
	}
	if !isLoopback(r.Host) {
		return refusal(http.StatusMisdirectedRequest, "host_forbidden", "without tokens, the Host header must be a loopback name such as 127.0.0.1")
	}
	_, model := findRoute(r)
	if model && g.origins.Check(r) != nil { // also a page of another port of this machine
		return refusal(http.StatusForbidden, "origin_forbidden", "without tokens, web pages cannot call models: set --tokens")
	}
	origin := r.Header.Get("Origin")
	if origin != "" {
		u, err := url.Parse(origin)
		if err == nil && isLoopback(u.Host) {
			return nil
		}
	}
	// A browser sends no Origin with a GET of an image or a script.
	if origin != "" || model && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return refusal(http.StatusForbidden, "origin_forbidden", "without tokens, requests of web pages must come from the loopback")
	}
	return nil
}

// isLoopback reports whether a Host header names the loopback, with or without a port.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// caller is the sender of a model call.
type caller struct {
	token Token // zero without tokens
}

// authorize returns the caller of a model call.
func (g *Gateway) authorize(h http.Header, book playbook.Book) (caller, *failure) {
	key := cmp.Or(h.Get(headerKey), bearer(h))
	if g.o.Tokens == nil {
		return caller{token: Token{Reports: true}}, nil // everyone who can reach the gateway may use it, with any key: keys are renewed within a run
	}
	token, ok := g.findToken(cmp.Or(h.Get(headerToken), key))
	if !ok {
		return caller{}, refusal(http.StatusUnauthorized, "token_required", "missing or wrong token: want "+headerToken+", or the token as the API key")
	}
	if !token.Calls {
		return caller{}, refusal(http.StatusForbidden, "scope_forbidden", "the token "+token.Caller.Name+" does not have the scope context, which permits calls of models")
	}
	if len(token.Books) > 0 && !slices.Contains(token.Books, book) {
		return caller{}, refusal(http.StatusForbidden, "book_forbidden", "the token "+token.Caller.Name+" has no access to book "+string(book))
	}
	return caller{token}, nil
}

func (g *Gateway) findToken(secret string) (Token, bool) {
	if g.o.Tokens == nil || secret == "" {
		return Token{}, false
	}
	return g.o.Tokens.Find(secret)
}

// bearer returns the bearer token of a request, or "".
func bearer(h http.Header) string {
	scheme, key, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// setKey removes tokens of Debrief from a request, and adds the gateway's key if no key is left. It fails if
// the gateway has no key to replace a token, or if the path is not one for the gateway's key.
func (g *Gateway) setKey(r *http.Request, rt route) *failure {
	h := r.Header
	removed := g.removeTokens(r)
	own := g.upstreams[rt.provider].key
	switch {
	case hasKey(h[headerKey]) || hasKey(h["Authorization"]):
	case !rt.within(ownKeyPaths...):
		return refusal(http.StatusForbidden, "path_forbidden", "the gateway's key is not for this path: send your API key, and a token in "+headerToken)
	case own == "" && removed:
		return refusal(http.StatusUnauthorized, "key_required", "the gateway has no key for "+string(rt.provider)+": send the token in "+headerToken+" and your API key as usual")
	case own == "":
	case rt.provider == Anthropic:
		h.Set(headerKey, own)
	default:
		h.Set("Authorization", "Bearer "+own)
	}
	return nil
}

// requestID returns a valid id of the client, or a random one.
func requestID(id string) string {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			id = ""
			break
		}
	}
	if id == "" || len(id) > 128 {
		return string(events.NewID())
	}
	return id
}

package proxy

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/playbook"
)

// tokenFinder finds the tokens of callers, such as a tokens.Set.
type tokenFinder interface {
	// Find returns the token with a secret. It is safe for concurrent use.
	Find(secret string) (*tokens.Token, bool)
}

// anyone is the token of every call to a gateway without tokens. Its caller is zero.
var anyone = &tokens.Token{Scopes: []tokens.Scope{tokens.Context, tokens.Report}}

// checkBrowser refuses requests that a web page could cause. With tokens no check is needed, because a page has none. It refuses
//
//   - all requests to a name that is not one of the loopback,
//   - calls of models from pages of other sites, and of other ports of this machine,
//   - calls of models that a page of another site makes as an image or a script, which have no Origin,
//   - other requests from pages that are not of this machine.
func (g *Gateway) checkBrowser(r *http.Request) *failure {
	if g.o.Tokens != nil {
		return nil
	}
	if !api.IsLoopback(r.Host) {
		return newFailure(http.StatusMisdirectedRequest, "host_forbidden", "without tokens, the Host header must be a loopback name such as 127.0.0.1")
	}
	_, isModelPath := findRoute(r)
	origin := r.Header.Get("Origin") // the page that made the request; "" for agents, and for images and scripts of a page
	originURL, err := url.Parse(origin)
	isOwnPage := origin != "" && err == nil && api.IsLoopback(originURL.Host)
	isEmbedded := r.Header.Get("Sec-Fetch-Site") == "cross-site" // an image or a script
	switch {
	case isModelPath && g.origins.Check(r) != nil:
		return newFailure(http.StatusForbidden, "origin_forbidden", "without tokens, web pages cannot call models: set --tokens")
	case isOwnPage:
		return nil
	case origin != "" || isModelPath && isEmbedded:
		return newFailure(http.StatusForbidden, "origin_forbidden", "without tokens, requests of web pages must come from the loopback")
	}
	return nil
}

// authorize returns the token of a model call. Without tokens every client that can reach the gateway may call models and report
// runs, and all their runs have the same owner. The API key does not identify an owner, because a client may renew it within a run.
func (g *Gateway) authorize(h http.Header, book playbook.Book) (*tokens.Token, *failure) {
	if g.o.Tokens == nil {
		return anyone, nil
	}
	token, ok := g.findToken(cmp.Or(h.Get(headerToken), h.Get(headerKey), tokens.SecretOf(h)))
	switch {
	case !ok:
		return nil, newFailure(http.StatusUnauthorized, "token_required", "missing or wrong token: want "+headerToken+", or the token as the API key")
	case !token.Allows(tokens.Context):
		return nil, newFailure(http.StatusForbidden, "scope_forbidden", "the token "+token.Name+" does not have the scope context, which permits calls of models")
	case !token.AllowsBook(book):
		return nil, newFailure(http.StatusForbidden, "book_forbidden", "the token "+token.Name+" has no access to book "+string(book))
	}
	return token, nil
}

// applyControlHeader leaves a call out of the control share if its header asks for it. Only a token with the scope operate may do that: an agent
// that could choose its calls would spoil the comparison.
func applyControlHeader(h http.Header, x *exchange) *failure {
	switch value := h.Get(events.HeaderControl); {
	case value == "":
		return nil
	case value != events.ControlOff:
		return newFailure(http.StatusBadRequest, "invalid_control", events.HeaderControl+": must be "+events.ControlOff)
	case !x.token.LeavesControl():
		return newFailure(http.StatusForbidden, "scope_forbidden", events.HeaderControl+" requires a token with the scope operate")
	}
	x.caller.Uncontrolled = true
	return nil
}

func (g *Gateway) findToken(secret string) (*tokens.Token, bool) {
	if g.o.Tokens == nil || secret == "" {
		return nil, false
	}
	return g.o.Tokens.Find(secret)
}

// setKey removes tokens of Debrief from a request. If no API key is left, it adds the gateway's own key, and refuses paths that this key is
// not for. Without an own key it refuses a request that had a token, unless the provider has no TLS.
func (g *Gateway) setKey(r *http.Request, rt route) *failure {
	h := r.Header
	removed := g.removeTokens(r)
	if hasKey(h[headerKey]) || hasKey(h["Authorization"]) {
		return nil
	}
	if !rt.isBelow(ownKeyPaths...) {
		return newFailure(http.StatusForbidden, "path_forbidden", "the gateway's key is not for this path: send your API key, and a token in "+headerToken)
	}
	upstream := g.upstreams[rt.provider]
	own := upstream.key
	switch {
	case own == "" && removed && upstream.scheme == "https": // a server without TLS, such as a local one, may need no key
		return newFailure(http.StatusUnauthorized, "key_required", "the gateway has no key for "+string(rt.provider)+": send the token in "+headerToken+" and your API key as usual")
	case own == "":
		return nil // the provider refuses the request itself
	case rt.provider == Anthropic:
		h.Set(headerKey, own)
	default:
		h.Set("Authorization", "Bearer "+own)
	}
	return nil
}

// cookiePrefix begins the names of the console's cookies, such as debrief_token. They belong to this server, not to the provider.
const cookiePrefix = "debrief_"

const maxToken = 512 // maximum length of a part of a header that is compared with tokens, in bytes

// removeTokens removes tokens of Debrief from all headers and from the query of a request, also as the password of Basic
// authentication, and cookies of the console. It reports whether it removed a token.
func (g *Gateway) removeTokens(r *http.Request) bool {
	removed := false
	removeCookies(r.Header)
	if g.o.Tokens == nil {
		return false
	}
	for name, values := range r.Header {
		if strings.HasPrefix(name, headerPrefix) {
			continue // rewrite removes all of them
		}
		kept := slices.DeleteFunc(slices.Clone(values), g.hasToken)
		if len(kept) == len(values) {
			continue
		}
		removed = true
		setValues(r.Header, name, kept)
	}
	var pairs []string
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if !g.hasToken(pair) {
			pairs = append(pairs, pair)
		}
	}
	if query := strings.Join(pairs, "&"); query != r.URL.RawQuery {
		u := *r.URL
		u.RawQuery = query
		r.URL, removed = &u, true
	}
	return removed
}

// hasToken reports whether a part of a text is a token: plain, in Basic credentials, or percent-encoded, also several times.
func (g *Gateway) hasToken(text string) bool {
	parts := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t,;=\"'", c) })
	for _, part := range parts {
		if len(part) > maxToken {
			continue
		}
		candidates := []string{part, unescape(part)}
		if basic, err := base64.RawStdEncoding.DecodeString(part); err == nil {
			candidates = append(candidates, strings.Split(string(basic), ":")...)
		}
		for _, candidate := range candidates {
			if _, ok := g.findToken(candidate); ok {
				return true
			}
		}
	}
	decoded := unescape(strings.ReplaceAll(text, "+", " "))
	return len(decoded) < len(text) && g.hasToken(decoded) // each decoding shortens the text, so this ends
}

// removeCookies removes the console's cookies from a request.
func removeCookies(h http.Header) {
	var kept []string
	for _, line := range h["Cookie"] {
		var cookies []string
		for cookie := range strings.SplitSeq(line, ";") {
			if cookie = strings.TrimSpace(cookie); cookie != "" && !ownCookie(cookie) {
				cookies = append(cookies, cookie)
			}
		}
		if len(cookies) > 0 {
			kept = append(kept, strings.Join(cookies, "; "))
		}
	}
	setValues(h, "Cookie", kept)
}

// removeSetCookies removes headers of a response that would set cookies of the console.
func removeSetCookies(h http.Header) {
	setValues(h, "Set-Cookie", slices.DeleteFunc(h["Set-Cookie"], ownCookie))
}

// setValues replaces the values of a header. Without values it removes the header.
func setValues(h http.Header, name string, values []string) {
	if len(values) == 0 {
		delete(h, name)
		return
	}
	h[name] = values
}

// ownCookie reports whether a cookie, with its name at the start, is one of the console.
func ownCookie(cookie string) bool {
	name, _, _ := strings.Cut(cookie, "=")
	return strings.HasPrefix(strings.ToLower(unescape(strings.TrimSpace(name))), cookiePrefix)
}

// hasKey reports whether a header that can carry an API key has a value.
func hasKey(values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) != "" })
}

const maxHops = 16 // maximum number of gateways that forward one call

const loopLogInterval = 10 * time.Second // minimum time between two log messages about loops

// checkHops refuses a call that this gateway or maxHops gateways have forwarded before: the upstream leads back to the gateway.
func (g *Gateway) checkHops(h http.Header) *failure {
	var hops []string
	for _, value := range h.Values(headerHops) {
		for id := range strings.SplitSeq(value, ",") {
			hops = append(hops, strings.TrimSpace(id))
		}
	}
	if !slices.Contains(hops, g.id) && len(hops) < maxHops {
		return nil
	}
	const message = "the call has come back to the gateway that forwarded it: an upstream leads to the gateway itself"
	now := time.Now().UnixNano()
	if last := g.loopLog.Load(); now-last >= int64(loopLogInterval) && g.loopLog.CompareAndSwap(last, now) {
		g.o.Log.Error().Str("fix", "set "+upstreamFlags(OpenAI)+", or --upstream-anthropic to the provider").Msg(message)
	}
	return newFailure(http.StatusLoopDetected, "loop", message+": set the address of the provider")
}

// checkSocket refuses a WebSocket of the responses API: the gateway could neither advise nor capture its calls. After the refusal clients
// use POST and event streams.
func checkSocket(r *http.Request, x *exchange) *failure {
	if x.mode != ModeOff && isWebSocket(r.Header) && x.route.rest == "/responses" {
		return newFailure(http.StatusUpgradeRequired, "websocket", "the gateway does not read WebSockets: send the request by POST, with stream for events")
	}
	return nil
}

package gateway

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// cookiePrefix begins the names of the console's cookies, such as debrief_token. They belong to this server, not to the provider.
const cookiePrefix = "debrief_"

// maxToken is the maximum length of a part of a header that is compared with tokens, in bytes.
const maxToken = 512

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
			continue // all of them stay here
		}
		kept := slices.DeleteFunc(slices.Clone(values), g.hasToken)
		if len(kept) == len(values) {
			continue
		}
		removed = true
		if r.Header[name] = kept; len(kept) == 0 {
			delete(r.Header, name)
		}
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

// hasToken reports whether a part of a text is a token, plain, percent-encoded, or in Basic credentials.
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
	return decoded != text && len(decoded) < len(text) && g.hasToken(decoded)
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
	if h.Del("Cookie"); len(kept) > 0 {
		h["Cookie"] = kept
	}
}

// removeSetCookies removes headers of a response that would set cookies of the console.
func removeSetCookies(h http.Header) {
	kept := slices.DeleteFunc(h["Set-Cookie"], ownCookie)
	if h["Set-Cookie"] = kept; len(kept) == 0 {
		delete(h, "Set-Cookie")
	}
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

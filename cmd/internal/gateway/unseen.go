package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// Every call of a model that is neither advised nor captured says so. These are the reasons of paths.
var (
	unreadPath    = reason{"path", "the gateway does not read calls of this path"}
	embeddings    = reason{"embeddings", "embeddings have no advice"}
	tokenCounting = reason{"token_counting", "a count of tokens has no advice"}
	webSocket     = reason{"websocket", "the gateway does not read WebSockets"}
)

// readPaths are the paths after /v1 of the APIs that the gateway reads.
var readPaths = []string{"/chat/completions", "/responses", "/messages", "/messages/count_tokens", "/embeddings", "/completions"}

// normalRest returns the path after /v1 without repeated slashes, a slash at its end and another /v1 at its beginning, if it then
// names an API that the gateway reads: base URLs are often written so. It returns other paths unchanged.
func normalRest(rest string) string {
	path := withoutVersion(strings.TrimSuffix(collapse(rest), "/"))
	if slices.Contains(readPaths, path) || responseOf(path) != "" {
		return path
	}
	return rest
}

// withoutVersion returns a path after /v1 without another /v1 at its beginning.
func withoutVersion(path string) string {
	for strings.HasPrefix(path, "/v1/") {
		path = strings.TrimPrefix(path, "/v1")
	}
	return path
}

// responseOf returns the id of the response that a path names, or "".
func responseOf(path string) string {
	id, ok := strings.CutPrefix(path, "/responses/")
	if !ok || strings.Contains(id, "/") {
		return ""
	}
	return unescape(id)
}

// isWebSocket reports whether a request opens a WebSocket.
func isWebSocket(h http.Header) bool { return strings.EqualFold(h.Get("Upgrade"), "websocket") }

// unseen returns the reason why the gateway does not read a request, or none for requests that are no calls of a model.
func (rt *route) unseen(r *http.Request) (why reason) {
	switch {
	case isWebSocket(r.Header):
		return webSocket
	case r.Method != http.MethodPost || rt.api != "":
		return why
	case rt.class == ClassEmbeddings:
		return embeddings
	case rt.rest == "/messages/count_tokens":
		return tokenCounting
	}
	return unreadPath
}

// checkSocket refuses a WebSocket of the responses API: the gateway could neither advise nor capture its calls. Clients then use POST
// and event streams.
func checkSocket(r *http.Request, x *exchange) *failure {
	if x.mode != ModeOff && isWebSocket(r.Header) && x.route.rest == "/responses" {
		return refusal(http.StatusUpgradeRequired, "websocket", "the gateway does not read WebSockets: send the request by POST, with stream for events")
	}
	return nil
}

// teaches reports whether the work of a call could teach: a call of a model that the provider answered. Helper calls, embeddings and
// counts of tokens could not.
func (x *exchange) teaches() bool {
	calls := x.route.api != "" && x.route.response == "" || x.degraded == unreadPath || x.degraded == webSocket
	return calls && x.mode != ModeOff && x.code == "" && x.status/100 != 4 && x.status/100 != 5 && x.degraded.code != "helper-call"
}

// uncaptured returns the reason why a call is not observed, or "".
func (x *exchange) uncaptured() string {
	if x.edit.Recorder != nil && x.degraded.code != "capture" {
		return ""
	}
	return cmp.Or(x.degraded.code, "unknown")
}

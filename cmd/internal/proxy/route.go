package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/playbook"
)

// Provider is the vendor of a model API.
type Provider string

const (
	OpenAI    Provider = "openai"
	Anthropic Provider = "anthropic"
)

// Class groups paths for metrics.
type Class string

// The classes. ClassModel is every other path of a provider.
const (
	ClassChat       Class = "chat"
	ClassResponses  Class = "responses"
	ClassMessages   Class = "messages"
	ClassEmbeddings Class = "embeddings"
	ClassModel      Class = "model"
	ClassAPI        Class = "api"
	ClassOther      Class = "other"
)

// route is the destination of a request below /v1.
type route struct {
	provider Provider
	book     string       // "" if the path has none; not validated
	rest     string       // the escaped path after /v1: "/chat/completions"
	path     string       // rest without escapes and repeated slashes
	response string       // id of the response that a client polls for; "" for other requests
	api      modelapi.API // "" if the gateway does not read the request
	class    Class
}

// findRoute returns the route of a request, or false if a mounted handler serves it. Telemetry has no route: agents that
// export to the gateway would send their prompts to the model provider.
func findRoute(r *http.Request) (route, bool) {
	var rt route
	path := singleSlash(r.URL.EscapedPath())
	if inBooks, ok := strings.CutPrefix(path, "/books/"); ok {
		segment, afterBook, _ := strings.Cut(inBooks, "/")
		rt.book, path = unescape(segment), singleSlash("/"+afterBook)
		if rt.book == "" {
			return rt, false
		}
	}
	rt.provider = OpenAI
	if ofAnthropic, ok := strings.CutPrefix(path, "/anthropic/"); ok {
		rt.provider, path = Anthropic, singleSlash("/"+ofAnthropic)
	}
	rest, ok := strings.CutPrefix(path, "/v1")
	isSegment := rest == "" || rest[0] == '/' // and not /v10
	if !ok || !isSegment {
		return rt, false
	}
	rest = normalRest(rest)
	rt.rest, rt.path = rest, withoutVersion(collapse(unescape(rest)))
	if rt.isBelow("traces", "logs", "metrics") {
		return rt, false
	}
	if r.Header.Get("Anthropic-Version") != "" || rt.isBelow("messages") {
		rt.provider = Anthropic
	}
	rt.classify(r.Method)
	return rt, true
}

// singleSlash returns a path with one slash at its start: some clients join a base URL with a slash at its end and a path.
func singleSlash(path string) string { return "/" + strings.TrimLeft(path, "/") }

// unescape decodes a path segment. It returns an invalid segment unchanged.
func unescape(segment string) string {
	if s, err := url.PathUnescape(segment); err == nil {
		return s
	}
	return segment
}

// normalRest removes repeated slashes, a slash at the end and another /v1 at the beginning of a path after /v1, because base URLs are
// often written so. It returns the path unchanged if the result is not in knownPaths and not the path of a response.
func normalRest(rest string) string {
	path := withoutVersion(strings.TrimSuffix(collapse(rest), "/"))
	if slices.Contains(knownPaths, path) || responseOf(path) != "" {
		return path
	}
	return rest
}

// knownPaths are the paths after /v1 with their own routes, also those that the gateway does not read.
var knownPaths = []string{"/chat/completions", "/responses", "/messages", "/messages/count_tokens", "/embeddings", "/completions"}

// collapse returns a path with one slash in place of several.
func collapse(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// withoutVersion returns a path after /v1 without another /v1 at its beginning.
func withoutVersion(path string) string {
	for strings.HasPrefix(path, "/v1/") {
		path = strings.TrimPrefix(path, "/v1")
	}
	return path
}

// isBelow reports whether the first segment of the path after /v1 is one of the names, in any case of letters.
func (rt *route) isBelow(names ...string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(rt.path, "/"), "/")
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(first, name) })
}

// classify sets the model API, the class, and the response of a poll.
func (rt *route) classify(method string) {
	rt.class = ClassModel
	if method == http.MethodGet && rt.provider == OpenAI {
		rt.response = responseOf(rt.rest)
		if rt.response != "" {
			rt.api, rt.class = modelapi.Responses, ClassResponses
		}
	}
	if method != http.MethodPost {
		return
	}
	switch {
	case rt.provider == Anthropic && rt.path == "/messages":
		rt.api, rt.class = modelapi.Messages, ClassMessages
	case rt.provider == OpenAI && rt.path == "/chat/completions":
		rt.api, rt.class = modelapi.Chat, ClassChat
	case rt.provider == OpenAI && rt.path == "/responses":
		rt.api, rt.class = modelapi.Responses, ClassResponses
	case rt.provider == OpenAI && rt.path == "/embeddings":
		rt.class = ClassEmbeddings
	}
}

// responseOf returns the id of the response that a path names, or "".
func responseOf(path string) string {
	id, ok := strings.CutPrefix(path, "/responses/")
	if !ok || strings.Contains(id, "/") {
		return ""
	}
	return unescape(id)
}

// Reasons why the gateway does not read a request. The response has the reason, so that the client learns of it.
var (
	unreadPath    = reason{"path", "the gateway does not read calls of this path"}
	embeddings    = reason{"embeddings", "embeddings have no advice"}
	tokenCounting = reason{"token_counting", "a count of tokens has no advice"}
	webSocket     = reason{"websocket", "the gateway does not read WebSockets"}
)

// unread returns the reason why the gateway does not read a call. The reason is empty for a call that it reads, and for a
// request of another kind.
func (rt *route) unread(r *http.Request) reason {
	switch {
	case isWebSocket(r.Header):
		return webSocket
	case r.Method != http.MethodPost || rt.api != "":
		return reason{}
	case rt.class == ClassEmbeddings:
		return embeddings
	case rt.rest == "/messages/count_tokens":
		return tokenCounting
	}
	return unreadPath
}

func isWebSocket(h http.Header) bool { return strings.EqualFold(h.Get("Upgrade"), "websocket") }

// checkPath refuses an escaped path that a server behind the gateway can read as another path: a proxy decodes escapes before
// it resolves dots, some do so twice, and some end a segment at a semicolon or take a backslash for a slash.
func checkPath(escaped string) *failure {
	path, err := url.PathUnescape(escaped)
	lower := strings.ToLower(escaped)
	switch {
	case err != nil:
		return invalidPath("has an invalid escape")
	case strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c"):
		return invalidPath("must not contain an escaped slash or backslash")
	case strings.ContainsAny(path, `\;%`):
		return invalidPath("must not contain a backslash, a semicolon or an escaped percent sign")
	case strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c > '~' }):
		return invalidPath("must contain only printable ASCII characters")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" && strings.Trim(segment, ". ") == "" {
			return invalidPath("must not contain a segment of dots or spaces")
		}
	}
	return nil
}

func invalidPath(reason string) *failure {
	return newFailure(http.StatusBadRequest, "invalid_path", "path: "+reason)
}

// checkMethod refuses methods that are no calls: TRACE returns the headers of a request, with the key, and CONNECT opens a tunnel.
func checkMethod(method string) *failure {
	if slices.Contains(methods, method) {
		return nil
	}
	return newFailure(http.StatusMethodNotAllowed, "method_not_allowed", "method: want "+strings.Join(methods, ", "))
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// ownKeyPaths are the first segments of the paths below /v1 that the gateway calls with its own key. Other paths, such as those that
// administer an organization or load models, need the key of the client.
var ownKeyPaths = []string{
	"audio", "batches", "chat", "completions", "conversations", "embeddings", "files", "fine_tuning", "images", "messages",
	"models", "moderations", "responses", "vector_stores",
}

// bookOf returns the book of a request: from the path, else from the header, else events.DefaultBook.
func bookOf(r *http.Request, rt route) (playbook.Book, *failure) {
	book, where := playbook.Book(rt.book), "path"
	if book == "" {
		book, where = playbook.Book(r.Header.Get(headerBook)), headerBook
	}
	if book == "" {
		return events.DefaultBook, nil
	}
	if err := events.ValidateBook(book); err != nil {
		return "", newFailure(http.StatusBadRequest, "invalid_book", where+": "+err.Error())
	}
	return book, nil
}

// modeOf returns the mode of a request: from the header, else the default.
func (g *Gateway) modeOf(r *http.Request) (Mode, *failure) {
	mode := Mode(strings.ToLower(r.Header.Get(headerMode)))
	if mode == "" {
		return g.o.Mode, nil
	}
	if !mode.Valid() {
		return "", newFailure(http.StatusBadRequest, "invalid_mode", headerMode+": must be tail, system, observe or off")
	}
	return mode, nil
}

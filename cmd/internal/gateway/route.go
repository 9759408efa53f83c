package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/playbook"
)

// Provider is the vendor of a model API.
type Provider string

// The providers.
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
	book     string // "" if the path has none; not validated
	rest     string // the escaped path after /v1: "/chat/completions"
	api      modelapi.API
	class    Class
	dots     bool // a segment is "." or ".."
}

// findRoute returns the route of a request, or false if a mounted handler serves it.
func findRoute(r *http.Request) (route, bool) {
	var rt route
	path := r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, "/books/"); ok {
		segment, rest, _ := strings.Cut(rest, "/")
		rt.book, path = unescape(segment), "/"+rest
		if rt.book == "" {
			return rt, false
		}
	}
	rt.provider = OpenAI
	if rest, ok := strings.CutPrefix(path, "/anthropic/"); ok {
		rt.provider, path = Anthropic, "/"+rest
	}
	rest, ok := strings.CutPrefix(path, "/v1")
	if !ok || rest != "" && rest[0] != '/' {
		return rt, false
	}
	rt.rest = rest
	if r.Header.Get("Anthropic-Version") != "" || rest == "/messages" || strings.HasPrefix(rest, "/messages/") {
		rt.provider = Anthropic
	}
	for segment := range strings.SplitSeq(rest, "/") {
		s := unescape(segment)
		rt.dots = rt.dots || s == "." || s == ".."
	}
	rt.classify(r.Method)
	return rt, true
}

// classify sets the model API and the class.
func (rt *route) classify(method string) {
	rt.class = ClassModel
	if method != http.MethodPost {
		return
	}
	switch {
	case rt.provider == Anthropic && rt.rest == "/messages":
		rt.api, rt.class = modelapi.Messages, ClassMessages
	case rt.provider == OpenAI && rt.rest == "/chat/completions":
		rt.api, rt.class = modelapi.Chat, ClassChat
	case rt.provider == OpenAI && rt.rest == "/responses":
		rt.api, rt.class = modelapi.Responses, ClassResponses
	case rt.provider == OpenAI && rt.rest == "/embeddings":
		rt.class = ClassEmbeddings
	}
}

// unescape decodes a path segment. It returns an invalid segment unchanged.
func unescape(segment string) string {
	if s, err := url.PathUnescape(segment); err == nil {
		return s
	}
	return segment
}

// Headers of requests and responses.
const (
	headerPrefix   = "X-Debrief-"
	headerBook     = "X-Debrief-Book"
	headerMode     = "X-Debrief-Mode"
	headerToken    = "X-Debrief-Token"
	headerDegraded = "X-Debrief-Degraded"
	headerError    = "X-Debrief-Error"
	headerKey      = "X-Api-Key" // of Anthropic
)

// bookOf returns the book of a request: from the path, else from the header, else the default.
func (g *Gateway) bookOf(r *http.Request, rt route) (playbook.Book, *failure) {
	book, where := playbook.Book(rt.book), "path"
	if book == "" {
		book, where = playbook.Book(r.Header.Get(headerBook)), headerBook
	}
	if book == "" {
		return g.o.Book, nil
	}
	if err := book.Validate(); err != nil {
		return "", refusal(http.StatusBadRequest, "invalid_book", where+": "+err.Error())
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
		return "", refusal(http.StatusBadRequest, "invalid_mode", headerMode+": must be tail, system, observe or off")
	}
	return mode, nil
}

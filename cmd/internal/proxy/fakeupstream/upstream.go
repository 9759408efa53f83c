// Package fakeupstream is test support: a fake model provider. It speaks chat completions, responses and messages, streamed
// and not. A script gives the answers, so a test decides about texts, tool calls, errors, and cut or slow streams. It
// reports cached tokens like a provider with a prefix cache. It shares no parser with the gateway.
package fakeupstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"debrief/cmd/internal/runs/modelapi"
)

// HeaderReceived is the response header with the SHA-256 of the request body, in hex.
const HeaderReceived = "X-Received-Sha256"

// Script returns the answer to a request. Calls may be concurrent.
type Script func(r *Request) Answer

// Answer is the answer to one request: the text and the tool calls, or an error if Status is not 0.
type Answer struct {
	Text    string
	Calls   []Call
	Refusal string // the model refuses with this text
	Length  bool   // the model stopped at a token limit

	Status     int // status of an error
	Message    string
	RetryAfter string // header of an error, in seconds

	Cut   int           // close the connection after this number of events, or of bytes if the answer is not streamed; 0 sends all
	Fail  bool          // end the stream with an error event
	Delay time.Duration // before each event
	Ping  bool          // send pings before the first event
}

// Call is a tool call of the model. Arguments are JSON.
type Call struct{ Name, Arguments string }

// Upstream is the handler of all APIs. It is safe for concurrent use.
type Upstream struct {
	script Script
	cache  cache
	ids    atomic.Int64

	mu     sync.Mutex
	stored map[string][]part // conversations of the Responses API by response id
}

// New returns an upstream. A nil script repeats the text of the last item.
func New(script Script) *Upstream {
	if script == nil {
		script = func(r *Request) Answer { return Answer{Text: r.Last().Text} }
	}
	return &Upstream{script: script, stored: map[string][]part{}}
}

// ServeHTTP implements http.Handler.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	sum := sha256.Sum256(body)
	w.Header().Set(HeaderReceived, hex.EncodeToString(sum[:]))
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/chat/completions":
		u.answer(w, r, modelapi.Chat, body)
	case "POST /v1/responses":
		u.answer(w, r, modelapi.Responses, body)
	case "POST /v1/messages":
		u.answer(w, r, modelapi.Messages, body)
	case "POST /v1/messages/count_tokens":
		u.countTokens(w, body)
	case "POST /v1/embeddings":
		writeJSON(w, 0, object{
			"object": "list", "model": "fake", "usage": object{"prompt_tokens": 1, "total_tokens": 1},
			"data": []object{{"object": "embedding", "index": 0, "embedding": []float64{0.25, -0.5}}},
		})
	case "GET /v1/models":
		listModels(w, r)
	default:
		writeError(w, modelapi.Chat, Answer{Status: http.StatusNotFound, Message: "unknown path"})
	}
}

// answer serves one of the three model APIs.
func (u *Upstream) answer(w http.ResponseWriter, r *http.Request, api modelapi.API, body []byte) {
	req, err := u.parse(api, body)
	if err != nil {
		writeError(w, api, Answer{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	req.Header, req.Body = r.Header, body
	req.Key = r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
	a := u.script(req)
	if a.Status != 0 {
		writeError(w, api, a)
		return
	}
	n := u.ids.Add(1)
	out := &reply{Answer: a, request: req, number: n, usage: u.cache.count(req.Key, req.prompt)}
	out.usage.output = len(a.Text+a.Refusal)/4 + 1
	u.store(out)
	var whole object
	var events []event
	switch api {
	case modelapi.Chat:
		whole, events = out.chat(), out.chatEvents()
	case modelapi.Responses:
		whole, events = out.response(out.status()), out.responseEvents()
	case modelapi.Messages:
		whole, events = out.message(), out.messageEvents()
	}
	if req.Stream {
		writeStream(w, r, api, a, events)
		return
	}
	wait(r, a.Delay)
	writeJSON(w, a.Cut, whole)
}

// store keeps the conversation of a response for previous_response_id.
func (u *Upstream) store(out *reply) {
	if out.request.API != modelapi.Responses {
		return
	}
	items := append([]part(nil), out.request.items...)
	for _, item := range out.outputItems() {
		data, _ := json.Marshal(item) // maps of strings cannot fail
		var p part
		_ = json.Unmarshal(data, &p)
		p.raw = data
		items = append(items, p)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored[out.id("resp_")] = items
}

func (u *Upstream) countTokens(w http.ResponseWriter, body []byte) {
	req, err := u.parse(modelapi.Messages, body)
	if err != nil {
		writeError(w, modelapi.Messages, Answer{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	writeJSON(w, 0, object{"input_tokens": len(req.prompt)/bytesPerToken + 1})
}

func listModels(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Anthropic-Version") != "" {
		writeJSON(w, 0, object{
			"data":     []object{{"type": "model", "id": "claude-fake", "display_name": "Fake", "created_at": "2026-01-01T00:00:00Z"}},
			"has_more": false, "first_id": "claude-fake", "last_id": "claude-fake",
		})
		return
	}
	writeJSON(w, 0, object{"object": "list", "data": []object{{"id": "gpt-fake", "object": "model", "created": 1, "owned_by": "fake"}}})
}

// writeJSON sends a JSON object, cut after some bytes if cut is not 0.
func writeJSON(w http.ResponseWriter, cut int, v object) {
	data, _ := json.Marshal(v) // maps of strings and numbers cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Header().Set("X-Request-Id", "req_fake")
	if cut > 0 {
		_, _ = w.Write(data[:min(cut, len(data))])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(data)
}

// writeError sends an error in the shape of an API.
func writeError(w http.ResponseWriter, api modelapi.API, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req_fake")
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	w.WriteHeader(a.Status)
	data, _ := json.Marshal(errorObject(api, a)) // maps of strings cannot fail
	_, _ = w.Write(data)
}

func errorObject(api modelapi.API, a Answer) object {
	if api == modelapi.Messages {
		return object{"type": "error", "error": object{"type": errorType(a.Status), "message": a.Message}, "request_id": "req_fake"}
	}
	return object{"error": object{"message": a.Message, "type": errorType(a.Status), "param": nil, "code": nil}}
}

func errorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// wait waits for a delay, or until the client disconnects.
func wait(r *http.Request, delay time.Duration) {
	if delay == 0 {
		return
	}
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
	}
}

// object is a JSON object.
type object = map[string]any

// pieces splits a text into parts of at most 12 bytes, at spaces where possible.
func pieces(text string) []string {
	var all []string
	for len(text) > 12 {
		n := strings.LastIndexByte(text[:12], ' ') + 1
		if n == 0 {
			n = 12
			for !utf8.RuneStart(text[n]) {
				n--
			}
		}
		all = append(all, text[:n])
		text = text[n:]
	}
	return append(all, text)
}

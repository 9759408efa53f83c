package simulated

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// API is one of the three model APIs.
type API string

// The model APIs.
const (
	Chat      API = "chat"
	Responses API = "responses"
	Messages  API = "messages"
)

// maxStored limits the responses that previous_response_id can name.
const maxStored = 1000

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

	ID          string // of the reply, without its prefix; "" numbers the replies
	Model       string // "" repeats that of the request
	Fingerprint string // for chat completions
	Usage       *Usage // nil estimates it from the texts and the cache of prompts

	Status       int // status of an error
	Message      string
	RetryAfter   string // header of an error, in seconds
	RetryAfterMS string // header of an error, in milliseconds

	HTML  string        // this page in place of an answer, as a broken proxy sends it
	Cut   int           // close the connection after this number of events, or of bytes if the answer is not streamed; 0 sends all
	Fail  bool          // end the stream with an error event
	Delay time.Duration // before each event
	Ping  bool          // send pings before the first event
}

// Half is the value of Answer.Cut that closes the connection halfway.
const Half = -1

// Call is a tool call of the model. Arguments are JSON.
type Call struct{ Name, Arguments string }

// Provider is the handler of all APIs. It is safe for concurrent use.
type Provider struct {
	script Script
	models []string
	cache  cache
	ids    atomic.Int64

	mu     sync.Mutex
	stored map[string][]part // conversations of the Responses API by response id
	order  []string          // keys of stored, oldest first
}

// NewProvider returns a provider that lists the models. A nil script repeats the text of the last item.
func NewProvider(script Script, models ...string) *Provider {
	if script == nil {
		script = func(r *Request) Answer { return Answer{Text: r.Last().Text} }
	}
	return &Provider{script: script, models: models, stored: map[string][]part{}}
}

// ServeHTTP implements http.Handler.
func (s *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		writeError(w, Chat, Answer{Status: http.StatusRequestEntityTooLarge, Message: err.Error()})
		return
	}
	if err != nil {
		return // the client has disconnected
	}
	w.Header().Set(HeaderReceived, fmt.Sprintf("%x", sha256.Sum256(body)))
	name, isModel := strings.CutPrefix(r.URL.Path, "/v1/models/")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
		s.answer(w, r, Chat, body)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/responses":
		s.answer(w, r, Responses, body)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages":
		s.answer(w, r, Messages, body)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages/count_tokens":
		s.countTokens(w, body)
	case r.Method == http.MethodGet && r.URL.Path == "/v1/models":
		s.listModels(w, r)
	case r.Method == http.MethodGet && isModel && slices.Contains(s.models, name):
		writeJSON(w, 0, modelObject(name, r))
	default:
		writeError(w, Chat, Answer{Status: http.StatusNotFound, Message: "unknown path or model"})
	}
}

// answer answers a request of one of the three model APIs by the script.
func (s *Provider) answer(w http.ResponseWriter, r *http.Request, api API, body []byte) {
	req, err := s.parse(api, body)
	if err != nil {
		writeError(w, api, Answer{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	req.Header, req.Body = r.Header, body
	req.Key = r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
	a := s.script(req)
	if a.Status != 0 || a.HTML != "" {
		write(w, api, a, nil)
		return
	}
	if a.ID == "" {
		a.ID = fmt.Sprintf("fake%06d", s.ids.Add(1))
	}
	a.Model = cmp.Or(a.Model, req.Model)
	out := &reply{Answer: a, request: req}
	if out.Usage == nil {
		used := s.cache.count(req.Key, req.prompt)
		used.Output = len(a.Text+a.Refusal)/bytesPerToken + 1
		out.Usage = &used
	}
	var whole object
	var events []event
	switch api {
	case Chat:
		whole, events = out.chat(), out.chatEvents()
	case Responses:
		s.store(out)
		whole, events = out.response(out.status()), out.responseEvents()
	case Messages:
		whole, events = out.message(), out.messageEvents()
	}
	if req.Stream {
		writeStream(w, r, api, a, events)
		return
	}
	wait(r, a.Delay)
	write(w, api, a, whole)
}

// store keeps the conversation of a response for previous_response_id: the input items and the output items, as a client would send them.
func (s *Provider) store(out *reply) {
	data, _ := json.Marshal(out.outputItems()) // maps of strings cannot fail
	var output []part
	_ = json.Unmarshal(data, &output)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := out.id("resp_")
	if _, ok := s.stored[id]; !ok {
		s.order = append(s.order, id)
	}
	s.stored[id] = slices.Concat(out.request.items, output)
	if len(s.order) > maxStored {
		delete(s.stored, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *Provider) countTokens(w http.ResponseWriter, body []byte) {
	req, err := s.parse(Messages, body)
	if err != nil {
		writeError(w, Messages, Answer{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	writeJSON(w, 0, object{"input_tokens": len(req.prompt)/bytesPerToken + 1})
}

func (s *Provider) listModels(w http.ResponseWriter, r *http.Request) {
	all := []object{}
	for _, name := range s.models {
		all = append(all, modelObject(name, r))
	}
	list := object{"data": all}
	if isAnthropic(r) {
		list["has_more"] = false
		if len(all) > 0 {
			list["first_id"], list["last_id"] = s.models[0], s.models[len(all)-1]
		}
	} else {
		list["object"] = "list"
	}
	writeJSON(w, 0, list)
}

// isAnthropic reports whether a client of Anthropic's API sends the request.
func isAnthropic(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

// modelObject describes a model in the form that the client expects.
func modelObject(name string, r *http.Request) object {
	if isAnthropic(r) {
		return object{"type": "model", "id": name, "display_name": name, "created_at": time.Unix(created, 0).UTC()}
	}
	return object{"id": name, "object": "model", "created": created, "owned_by": "simulated"}
}

// write sends an answer as a whole: an error, the page of a proxy, or else a JSON object, cut as the answer says.
func write(w http.ResponseWriter, api API, a Answer, v any) {
	switch {
	case a.Status != 0:
		writeError(w, api, a)
	case a.HTML != "":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, a.HTML)
	default:
		writeJSON(w, a.Cut, v)
	}
}

// writeJSON sends a JSON object, cut as Answer.Cut says.
func writeJSON(w http.ResponseWriter, cut int, v any) {
	data, _ := json.Marshal(v) // maps and structs of strings and numbers cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("X-Request-Id", "req_fake")
	if cut == Half {
		cut = len(data) / 2
	}
	if cut > 0 {
		_, _ = w.Write(data[:min(cut, len(data))])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(data)
}

// writeError sends an error in the shape of an API.
func writeError(w http.ResponseWriter, api API, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req_fake")
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	if a.RetryAfterMS != "" {
		w.Header().Set("Retry-After-Ms", a.RetryAfterMS)
	}
	w.WriteHeader(a.Status)
	data, _ := json.Marshal(errorObject(api, a)) // maps of strings cannot fail
	_, _ = w.Write(data)
}

func errorObject(api API, a Answer) object {
	if api == Messages {
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
	case 529: // Anthropic: overloaded
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// wait waits for a delay. It returns false if the client disconnects before its end.
func wait(r *http.Request, delay time.Duration) (connected bool) {
	if delay == 0 {
		return true
	}
	select {
	case <-time.After(delay):
		return true
	case <-r.Context().Done():
		return false
	}
}

// object is a JSON object.
type object = map[string]any

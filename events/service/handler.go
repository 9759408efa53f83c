package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/redact"
	"debrief/playbook"
)

const (
	maxAtOnce   = 64               // requests that a handler works on at the same time
	timeout     = 10 * time.Second // of one request; waiting for a minimum version takes up to five
	defaultBook = playbook.Book("default")
)

// Limit is how large the body of a request may be, in bytes.
func Limit(verb string) int {
	switch verb {
	case events.VerbContext:
		return 4 << 20
	case events.VerbReport: // a trace with the outputs of its tools
		return 16 << 20
	}
	return 1 << 20
}

// TooLarge is the refusal of a body that is over its limit.
func TooLarge(verb string) error {
	return Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: the limit is %d bytes", Limit(verb)))
}

// Handler answers requests, through whichever door they came: it reads the body, asks the desk, and makes JSON of what
// the desk says. It works on a bounded number at a time and refuses the others at once. It is safe for concurrent use.
type Handler struct {
	desk    Desk
	log     zerolog.Logger
	slots   chan struct{}
	timeout time.Duration
}

// NewHandler is a handler for one door.
func NewHandler(desk Desk, log zerolog.Logger) *Handler {
	return &Handler{desk: desk, log: log, slots: make(chan struct{}, maxAtOnce), timeout: timeout}
}

// Handle answers one request. Book is what the door itself says, such as the subject of a message; where that is empty
// the body says it, and where neither does it is "default".
func (h *Handler) Handle(ctx context.Context, verb string, book playbook.Book, body []byte) Answer {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return Refused(ErrBusy)
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	reply, err := h.ask(ctx, verb, book, body)
	if err == nil {
		var out []byte
		if out, err = encode(reply); err == nil {
			return Answer{Code: http.StatusOK, Body: out}
		}
	}
	a := Refused(err)
	if a.Code == http.StatusInternalServerError {
		h.log.Error().Err(err).Str("verb", verb).Msg("a request could not be answered")
	}
	return a
}

// ask asks the desk. A desk that panics fails its own request and no other.
func (h *Handler) ask(ctx context.Context, verb string, book playbook.Book, body []byte) (reply any, err error) {
	defer func() {
		if v := recover(); v != nil {
			// Not the value itself, which may hold what a client sent.
			reply, err = nil, fmt.Errorf("panic (%T)\n%s", v, debug.Stack())
		}
	}()
	if len(body) > Limit(verb) {
		return nil, TooLarge(verb)
	}
	switch verb {
	case events.VerbContext:
		var r events.ContextRequest
		if err := read(body, &r, &r.Book, book); err != nil {
			return nil, err
		}
		return h.desk.Context(ctx, &r)
	case events.VerbReport:
		var r events.Report
		if err := read(body, &r, &r.Book, book); err != nil {
			return nil, err
		}
		return h.desk.Report(ctx, &r)
	case events.VerbFeedback:
		var r events.FeedbackRequest
		if err := read(body, &r, &r.Book, book); err != nil {
			return nil, err
		}
		return h.desk.Feedback(ctx, &r)
	}
	return nil, Refuse(http.StatusNotFound, fmt.Sprintf("%q cannot be asked for", verb))
}

// read decodes a request and settles which book it is about: has is the request's own, from the door's.
func read(body []byte, request any, has *playbook.Book, from playbook.Book) error {
	if err := decode(body, request); err != nil {
		return Refuse(http.StatusBadRequest, err.Error())
	}
	redact.Fields(request) // before anything is made of it: what a model is shown is what is stored
	if from != "" && *has != "" && *has != from {
		return Refuse(http.StatusBadRequest, fmt.Sprintf("book: is %q, but the request came for %q", *has, from))
	}
	*has = cmp.Or(from, *has, defaultBook)
	if err := has.Validate(); err != nil {
		return Refuse(http.StatusBadRequest, err.Error())
	}
	return nil
}

func encode(reply any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // prompts are full of < and >, and six bytes each count against the largest message
	if err := enc.Encode(reply); err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return out.Bytes(), nil
}

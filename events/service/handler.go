package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/outcome"
	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/text"
)

const (
	maxInFlight    = 64               // concurrent requests of one handler
	requestTimeout = 10 * time.Second // the wait for a minimum version takes up to 5 s of it
)

// MaxBodyBytes returns the maximum size of a request body, in bytes.
func MaxBodyBytes(verb string) int {
	switch verb {
	case events.VerbContext:
		return 4 << 20
	case events.VerbReport: // a trace with the outputs of its tools
		return 16 << 20
	}
	return 1 << 20
}

// Handler processes requests of any transport: it decodes the body, calls the backend, and encodes the reply as JSON.
// It processes a limited number of requests at a time and rejects more with ErrBusy. It is safe for concurrent use.
type Handler struct {
	backend Backend
	log     zerolog.Logger
	slots   chan struct{}
	timeout time.Duration
}

// NewHandler returns a handler for one transport.
func NewHandler(backend Backend, log zerolog.Logger) *Handler {
	return &Handler{backend: backend, log: log, slots: make(chan struct{}, maxInFlight), timeout: requestTimeout}
}

// Handle processes one request. The transport names the book and the caller, such as in the subject of a message. If the book
// is empty, the body may name it. Without a name, the backend uses the book of the context for a report. For other requests it is
// events.DefaultBook.
func (h *Handler) Handle(ctx context.Context, verb string, book playbook.Book, caller events.Caller, body []byte) Response {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return ErrorResponse(ErrBusy)
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	reply, err := h.call(ctx, verb, book, caller, body)
	var out []byte
	if err == nil {
		out, err = encode(reply)
	}
	if err == nil {
		return Response{Code: http.StatusOK, Body: out}
	}
	response := ErrorResponse(err)
	if response.Code == http.StatusInternalServerError {
		h.log.Error().Err(err).Str("verb", verb).Msg("request failed")
	}
	return response
}

// call decodes the request and calls the backend. A panic becomes an error of this request only.
func (h *Handler) call(ctx context.Context, verb string, book playbook.Book, caller events.Caller, body []byte) (reply any, err error) {
	defer func() {
		if v := recover(); v != nil {
			// Without the value, which may contain data of the client.
			reply, err = nil, fmt.Errorf("panic (%T)\n%s", v, debug.Stack())
		}
	}()
	if limit := MaxBodyBytes(verb); len(body) > limit {
		return nil, NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: the limit is %d bytes", limit))
	}
	switch verb {
	case events.VerbContext:
		var r events.ContextRequest
		if err := decodeRequest(verb, body, &r, &r.Book, book); err != nil {
			return nil, err
		}
		r.Caller = caller
		return h.backend.Context(ctx, &r)
	case events.VerbReport:
		var r struct {
			events.Report
			Outcome json.RawMessage `json:"outcome"` // in place of Report.Outcome: decodeOutcome decodes it
		}
		if err := decodeRequest(verb, body, &r, &r.Book, book); err != nil {
			return nil, err
		}
		if r.Report.Outcome, err = h.decodeOutcome(ctx, r.Outcome, caller, r.Book, r.ContextID); err != nil {
			return nil, err
		}
		r.Caller = caller
		return h.backend.Report(ctx, &r.Report)
	case events.VerbFeedback:
		var r struct {
			events.FeedbackRequest
			Outcome json.RawMessage `json:"outcome"`
		}
		if err := decodeRequest(verb, body, &r, &r.Book, book); err != nil {
			return nil, err
		}
		if r.FeedbackRequest.Outcome, err = h.decodeOutcome(ctx, r.Outcome, caller, r.Book, ""); err != nil {
			return nil, err
		}
		r.Caller = caller
		return h.backend.Feedback(ctx, &r.FeedbackRequest)
	}
	return nil, NewError(http.StatusNotFound, fmt.Sprintf("unknown operation %q", verb))
}

// decodeRequest decodes a body into request, a pointer, and determines its book. field is the book field of the request. fromTransport is
// the book that the transport names, or "". A report may have no book.
func decodeRequest(verb string, body []byte, request any, field *playbook.Book, fromTransport playbook.Book) error {
	if err := events.DecodeStrict(body, request); err != nil {
		return NewError(http.StatusBadRequest, err.Error())
	}
	redact.Fields(request) // first, so that the model sees the same text that is stored
	if fromTransport != "" && *field != "" && *field != fromTransport {
		return NewError(http.StatusBadRequest, fmt.Sprintf("book: %q differs from book %q in the subject", *field, fromTransport))
	}
	*field = cmp.Or(fromTransport, *field)
	if *field == "" {
		if verb == events.VerbReport {
			return nil // the backend selects the book of the context
		}
		*field = events.DefaultBook
	}
	if err := field.Validate(); err != nil {
		return NewError(http.StatusBadRequest, err.Error())
	}
	return nil
}

// decodeOutcome decodes the outcome of a request, and redacts its feedback. Only a caller with the scope review may report a violation, or
// an outcome in the name of a judge.
func (h *Handler) decodeOutcome(ctx context.Context, raw json.RawMessage, caller events.Caller, b playbook.Book, contextID events.ID) (events.Outcome, error) {
	decoder := outcome.Decoder{Reviews: caller.Reviews}
	if leader, ok := h.backend.(Leader); ok {
		decoder.Leading = func() (string, error) { return leader.LeadingScore(ctx, caller, b, contextID) }
	}
	d, err := decoder.Decode(raw)
	lookup, isLookup := errors.AsType[*outcome.LookupError](err)
	switch {
	case isLookup: // the leading score could not be read
		return events.Outcome{}, lookup
	case errors.Is(err, outcome.ErrViolation), errors.Is(err, outcome.ErrJudge):
		return events.Outcome{}, NewError(http.StatusForbidden, "outcome."+err.Error())
	case err != nil:
		return events.Outcome{}, NewError(http.StatusBadRequest, "outcome: "+err.Error())
	case len(d.Ignored) > 0:
		return events.Outcome{}, NewError(http.StatusBadRequest, fmt.Sprintf("outcome: unknown field %q", text.Clip(d.Ignored[0], 60)))
	}
	redact.Fields(&d.Outcome)
	return d.Outcome, nil
}

func encode(reply any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // prompts contain many < and >, and each escape takes six bytes of the maximum message size
	if err := enc.Encode(reply); err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return out.Bytes(), nil
}

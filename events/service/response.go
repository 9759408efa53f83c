package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/erasure"
	"debrief/playbook/text"
)

// Response is the response to a request, on any transport.
type Response struct {
	Code int    // HTTP status code
	Body []byte // JSON: the reply, or an events.ErrorReply
	Text string // error text in one line; empty without an error
	// RetryDelay is the time until the client should try again; 0 is unknown.
	RetryDelay time.Duration
}

// RetryAfter returns the value of the Retry-After header: whole seconds, rounded up, or empty if unknown.
func (r Response) RetryAfter() string {
	if r.RetryDelay <= 0 {
		return ""
	}
	return strconv.FormatInt(int64((r.RetryDelay+time.Second-1)/time.Second), 10)
}

// refusal is an error with a status code, a text for the client, and a retry delay.
type refusal struct {
	code  int
	text  string
	after time.Duration
}

func (r *refusal) Error() string             { return r.text }
func (r *refusal) RetryAfter() time.Duration { return r.after }

// NewError returns an error for which ErrorResponse returns this code and text.
func NewError(code int, text string) error { return &refusal{code: code, text: text} }

// ErrBusy is returned if the maximum number of requests is already in progress.
var ErrBusy error = &refusal{http.StatusServiceUnavailable, "busy: too many requests at once, try again", time.Second}

// ErrorResponse returns the error response for err. It is the only place that chooses the status code and the text for
// the client.
func ErrorResponse(err error) Response {
	code, text := status(err)
	text = oneLine(text)
	body, _ := json.Marshal(events.ErrorReply{Error: text}) // a struct with one string cannot fail
	r := Response{Code: code, Text: text, Body: append(body, '\n')}
	var retry interface{ RetryAfter() time.Duration }
	if errors.As(err, &retry) {
		r.RetryDelay = retry.RetryAfter()
	}
	return r
}

// status returns the HTTP status code and the text for the client.
func status(err error) (code int, text string) {
	var (
		refused     *refusal
		invalid     interface{ Invalid() bool }
		notFound    interface{ NotFound() bool }
		full        *bus.FullError
		unavailable interface{ Unavailable() bool }
	)
	switch {
	case errors.As(err, &refused):
		return refused.code, refused.text
	case errors.Is(err, erasure.ErrErased):
		return http.StatusGone, erasure.ErrErased.Error()
	case errors.As(err, &invalid) && invalid.Invalid():
		return http.StatusBadRequest, err.Error()
	case errors.As(err, &notFound) && notFound.NotFound():
		return http.StatusNotFound, err.Error()
	case errors.As(err, &full):
		return http.StatusServiceUnavailable, "full: the store has no space, nothing was stored; try again later"
	case errors.As(err, &unavailable) && unavailable.Unavailable():
		return http.StatusServiceUnavailable, err.Error()
	case bus.Unreachable(err):
		return http.StatusServiceUnavailable, "store unavailable: the data may have been stored, send it again with the same id"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "timeout: the data may have been stored, send it again with the same id"
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, "canceled: try again"
	}
	return http.StatusInternalServerError, "internal error: see the log of the service"
}

// maxText is the maximum length of an error text in bytes. The text is sent in a header, and may quote the request.
const maxText = 500

// oneLine returns an error text in a form that is valid in a header. Joined errors have line breaks between them.
func oneLine(s string) string { return text.Line(strings.ReplaceAll(s, "\n", "; "), maxText) }

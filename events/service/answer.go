package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"debrief/events"
	"debrief/events/bus"
)

// Answer is what a door sends back.
type Answer struct {
	Code int    // as HTTP has it
	Body []byte // JSON: the reply, or an events.Refusal
	Text string // of a refusal, in one line; empty where there is none
	// After is when a refused client should try again; 0 is unknown.
	After time.Duration
}

// RetryAfter is the value of the header of that name: whole seconds, empty for none.
func (a Answer) RetryAfter() string {
	if a.After <= 0 {
		return ""
	}
	return strconv.FormatInt(int64((a.After+time.Second-1)/time.Second), 10)
}

// refusal is an error that knows its answer.
type refusal struct {
	code  int
	text  string
	after time.Duration
}

func (r *refusal) Error() string             { return r.text }
func (r *refusal) RetryAfter() time.Duration { return r.after }

// Refuse is an error that Refused answers with this code and text.
func Refuse(code int, text string) error { return &refusal{code: code, text: text} }

// ErrBusy is returned when more is asked at once than is taken on.
var ErrBusy error = &refusal{http.StatusServiceUnavailable, "busy: too many requests at once, ask again", time.Second}

// Refused is the answer to a request that ended in this error: the one place that decides which code an error has and
// which words a client may read.
func Refused(err error) Answer {
	code, text := status(err)
	text = oneLine(text)
	body, _ := json.Marshal(events.Refusal{Error: text}) // a string cannot fail
	a := Answer{Code: code, Text: text, Body: append(body, '\n')}
	var wait interface{ RetryAfter() time.Duration }
	if errors.As(err, &wait) {
		a.After = wait.RetryAfter()
	}
	return a
}

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
	case errors.As(err, &invalid) && invalid.Invalid():
		return http.StatusBadRequest, err.Error()
	case errors.As(err, &notFound) && notFound.NotFound():
		return http.StatusNotFound, err.Error()
	case errors.As(err, &full):
		return http.StatusServiceUnavailable, "full: the store has no room, so nothing was stored; ask again later"
	case errors.As(err, &unavailable) && unavailable.Unavailable():
		return http.StatusServiceUnavailable, err.Error()
	case bus.Unreachable(err):
		return http.StatusServiceUnavailable, "the store does not answer; what was sent may have been stored, so send it again under its id"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "took too long; what was sent may have been stored, so send it again under its id"
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, "was given up before it was done: ask again"
	}
	return http.StatusInternalServerError, "something went wrong here: the log of the service says what"
}

// maxText bounds what a refusal says, in bytes: it travels in a header, and may quote the request.
const maxText = 500

// oneLine is text that fits into a header.
func oneLine(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ") // of joined errors
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return events.Beginning(strings.TrimSpace(text), maxText)
}

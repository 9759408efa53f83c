package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"

	"debrief/playbook/text"
)

// failureKind classifies a failed attempt.
type failureKind int

const (
	down          failureKind = iota // no response or an invalid one: retry, counted by the breaker
	busy                             // the server asks to wait: retry, not counted by the breaker
	misconfigured                    // every prompt fails until a person changes the configuration
	tooLong                          // the prompt exceeds the context of the model
	refused                          // this prompt will fail again for another reason
)

func (k failureKind) retryable() bool { return k == down || k == busy }

// Error describes why the server gave no usable response. It wraps no other error: errors of go-openai contain the
// whole body, and a body may contain the key.
type Error struct {
	Status int    // 0 without a response
	Code   string // the server's error code, such as "context_length_exceeded"
	Text   string

	kind  failureKind
	after time.Duration // the server's Retry-After, 0 without one
	// unreached is set if the client could never connect to the server. The address is probably wrong, or the server is not started
	// yet: a retry within seconds does not help.
	unreached bool
	timedOut  bool // the answer took longer than Config.Timeout
	// final is set for a repeated timeout: the provider would charge for another attempt, which would probably be too slow again.
	final bool
}

func (e *Error) Error() string { return e.Text }

// failure classifies an exchange that ended with err. The first case that applies counts: the exchange failed before it was sent, without
// a response, with a reply that is not usable, or with an error status. With an error status, err is not read.
func (s *server) failure(x *exchange, body errorBody, err error) *Error {
	e := &Error{Status: x.status, Code: body.Code, after: retryAfter(x.header)}
	noResponse := x.status == 0
	detail := body.Text // goes to the end of e.Text. It is cleared if it may be a reply of the model, which must not appear in errors
	switch {
	case errors.Is(err, openai.ErrChatCompletionInvalidModel):
		e.kind, e.Text = misconfigured, fmt.Sprintf("the model %q does not support chat: check %s", s.cfg.Model, s.cfg.name("Model"))
	case !x.sent:
		e.kind, e.Text = refused, "cannot encode the request: "+err.Error()
	case errors.Is(err, errTimeout) && (noResponse || x.ok()): // no reply, or an incomplete one; an error status counts more than the timeout
		e.kind, e.timedOut = down, true
		e.Text = fmt.Sprintf("no answer within %v: if the model is slow, raise %s", s.cfg.Timeout, s.cfg.name("Timeout"))
		detail = ""
	case noResponse && dialError(err) != nil:
		e.kind, e.unreached = down, !s.reached.Load()
		e.Text = fmt.Sprintf("cannot connect to %s: %v: check that the model's server runs, and %s", s.cfg.BaseURL, dialError(err), s.cfg.name("BaseURL"))
	case noResponse:
		e.kind, e.Text = down, "no answer: "+err.Error()
	case errors.Is(err, errNoDirection):
		e.kind, e.Text = refused, "unusable response: "+err.Error()
		detail = ""
	case x.ok():
		e.kind, e.Text = down, "invalid response: "+err.Error()
		if detail == string(x.body) { // the body has no error of a server, so it is a part of a reply
			detail = ""
		}
	default:
		e.kind = body.classify(x.status)
		e.Text = s.describe(e, x, body)
	}
	if detail == pageOfHTML {
		detail += ": check " + s.cfg.name("BaseURL")
	}
	if detail != "" && !noResponse {
		e.Text += ": " + detail
	}
	e.Text, e.Code = s.sanitize(e.Text), s.sanitize(e.Code)
	return e
}

// dialError returns the error of a failed connection, or nil if err has another reason.
func dialError(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return e.Err
	}
	return nil
}

// describe returns the error text for a status, with a hint how to fix it.
func (s *server) describe(e *Error, x *exchange, body errorBody) string {
	code := fmt.Sprintf("(%d)", x.status)
	switch {
	case e.kind == busy:
		return "the server is busy " + code
	case e.kind == down:
		return "server error " + code
	case e.kind == tooLong:
		return "the prompt exceeds the model's context " + code
	case e.kind == refused:
		return "the server refused this prompt " + code
	case x.status == http.StatusPaymentRequired, x.status == http.StatusTooManyRequests:
		return "the account's quota is exhausted " + code + ": check plan and billing"
	case x.status == http.StatusNotFound, x.status == http.StatusMethodNotAllowed, body.isUnknownModel():
		return fmt.Sprintf("the server does not know the model %q or the path %s: check %s and %s",
			s.cfg.Model, code, s.cfg.name("Model"), s.cfg.name("BaseURL"))
	case x.status/100 == 3:
		return fmt.Sprintf("the server redirects %s to %q: set the new address with %s", code, x.header.Get("Location"), s.cfg.name("BaseURL"))
	case x.status == http.StatusForbidden:
		return fmt.Sprintf("access denied %s: check that the key may use the model %q", code, s.cfg.Model)
	case s.cfg.APIKey == "":
		return "the server requires a key " + code + ": set " + s.cfg.name("APIKey")
	}
	return "the server refused the key " + code + ": check " + s.cfg.name("APIKey")
}

// sanitize removes the key from a message of the server, and shortens it to one line.
func (s *server) sanitize(message string) string {
	const maxLen = 400
	if key := string(s.cfg.APIKey); len(key) > 3 { // "x" is a common key for local servers, not a secret, and part of many words
		message = strings.ReplaceAll(message, key, hiddenText)
	}
	return text.Line(message, maxLen)
}

// errorBody is the content of an error body, in any of the formats of servers.
type errorBody struct {
	Text, Type, Code, Param string
}

// mentions reports whether the body contains one of these lower-case words.
func (b errorBody) mentions(words ...string) bool {
	text := strings.ToLower(b.Param + " " + b.Text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

var (
	contextWords  = regexp.MustCompile(`(?i)context[ _](length|window|size)|maximum context|prompt is too long|input is too long|too many (input )?tokens|reduce the length`)
	tooLargeWords = regexp.MustCompile(`(?i)^request too large`)
	keyWords      = regexp.MustCompile(`(?i)(api|authentication)[ _]?key|invalid_authentication`)
	modelWords    = regexp.MustCompile(`(?i)not a valid model\b|\b(invalid|unknown|unsupported) model\b|\bmodel ['"\x60][^\s'"\x60]+['"\x60] (is )?(not found|not supported|does not exist|not exist|unknown)\b|\bmodel not (exist|found)\b`)
	quotaWords    = regexp.MustCompile(`^(insufficient_quota|insufficient_balance|billing_hard_limit_reached|billing_not_active)$`)
)

// classify returns the kind of a failure with a status other than 200. For a 429 only the code counts, because Gemini servers write "quota" in
// the text of a rate limit.
func (b errorBody) classify(status int) failureKind {
	switch status {
	case http.StatusRequestTimeout:
		return down
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusTooEarly:
		switch {
		case quotaWords.MatchString(b.Code), quotaWords.MatchString(b.Type):
			return misconfigured
		case tooLargeWords.MatchString(b.Text): // larger than the account's rate: waiting does not help
			return tooLong
		}
		return busy
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return misconfigured
	case http.StatusRequestEntityTooLarge:
		return tooLong
	}
	switch {
	case status >= 500:
		return down
	case status < 400:
		return misconfigured
	case b.isUnknownModel(), b.Code == "invalid_api_key", keyWords.MatchString(b.Text):
		return misconfigured
	case contextWords.MatchString(b.Code + " " + b.Type + " " + b.Text):
		return tooLong
	}
	return refused
}

// isUnknownModel reports whether the server does not have the model. Some servers report it as a bad request.
func (b errorBody) isUnknownModel() bool {
	return b.Code == "model_not_found" || modelWords.MatchString(b.Text)
}

const pageOfHTML = "a page of HTML"

// parseErrorBody parses {"error":{…}}, {"error":"text"}, {"message":…}, {"detail":…}, and a list of one of these. Any
// other body becomes the text.
func parseErrorBody(body []byte) errorBody {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		if text := strings.TrimSpace(string(body)); strings.HasPrefix(text, "<") {
			return errorBody{Text: pageOfHTML}
		}
		return errorBody{Text: string(body)}
	}
	inner := outer
	var nested map[string]json.RawMessage
	if json.Unmarshal(outer["error"], &nested) == nil && nested != nil {
		inner = nested
	}
	b := errorBody{Type: unquote(inner["type"]), Code: unquote(inner["code"]), Param: unquote(inner["param"])}
	for _, field := range []json.RawMessage{inner["message"], inner["error"], inner["detail"]} {
		b.Text = unquote(field)
		if b.Text != "" {
			return b
		}
	}
	b.Text = string(body)
	return b
}

// unquote returns a JSON string without its quotes, "" for null, and any other value unchanged.
func unquote(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// retryAfter returns the delay that the server asks for, at most a day. It reads OpenAI's milliseconds, seconds, or a
// date.
func retryAfter(h http.Header) time.Duration {
	var d time.Duration
	value := h.Get("Retry-After")
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		d = seconds(ms / 1000)
	} else if s, err := strconv.ParseFloat(value, 64); err == nil {
		d = seconds(s)
	} else if t, err := http.ParseTime(value); err == nil {
		now := time.Now()
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date // the date refers to the server's clock
		}
		d = t.Sub(now)
	}
	return min(max(d, 0), 24*time.Hour)
}

// seconds converts seconds to a duration of at most a day. It handles NaN and large numbers.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, 86400) * float64(time.Second))
}

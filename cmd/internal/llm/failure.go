package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"
)

// kind is what a failed attempt means for the next one.
type kind int

const (
	down          kind = iota // no answer, or none that makes sense: again, and the breaker counts it
	busy                      // the server asks for patience: again, and it is healthy
	misconfigured             // every prompt will fail until a person does something
	tooLong                   // this prompt will not fit
	refused                   // this prompt will fail again for another reason
)

func (k kind) retryable() bool { return k == down || k == busy }

// Error is why the server's answer is none. It holds no other error, as those of go-openai hold the whole body, and a
// body may hold the key.
type Error struct {
	Status int    // 0 when no answer came
	Code   string // the server's word for it, such as "context_length_exceeded"
	Text   string

	kind  kind
	after time.Duration // the server's Retry-After, 0 if it said nothing
}

func (e *Error) Error() string { return e.Text }

// failure says what became of an exchange that ended in err. A bad status says more than err does.
func (s *server) failure(x *exchange, said said, err error) *Error {
	e := &Error{Status: x.status, Code: said.Code, after: retryAfter(x.header)}
	switch {
	case errors.Is(err, openai.ErrChatCompletionInvalidModel):
		e.kind, e.Text = misconfigured, fmt.Sprintf("the model %q does not chat: check %s", s.cfg.Model, s.settings.flag("model"))
	case !x.sent:
		e.kind, e.Text = refused, "the request cannot be written: "+err.Error()
	case errors.Is(err, errTimeout) && (x.status == 0 || x.ok()):
		e.kind, e.Text, said.Text = down, fmt.Sprintf("no answer within %v", s.cfg.Timeout), ""
	case x.status == 0:
		e.kind, e.Text = down, "no answer: "+err.Error()
	case errors.Is(err, errNoDirection):
		e.kind, e.Text, said.Text = refused, "the answer cannot be used: "+err.Error(), ""
	case x.ok():
		e.kind, e.Text = down, "the answer makes no sense: "+err.Error()
		if said.Text == string(x.body) {
			said.Text = "" // an answer after all, and no business of whoever reads errors
		}
	default:
		e.kind = said.kind(x.status)
		e.Text = s.meaning(e, x)
	}
	if said.Text == pageOfHTML {
		said.Text += ": is " + s.settings.flag("base-url") + " right?"
	}
	if said.Text != "" && x.status != 0 {
		e.Text += ": " + said.Text
	}
	e.Text, e.Code = s.presentable(e.Text), s.presentable(e.Code)
	return e
}

// meaning is a status in words that say what to do about it.
func (s *server) meaning(e *Error, x *exchange) string {
	code := fmt.Sprintf("(%d)", x.status)
	switch {
	case e.kind == busy:
		return "the server is busy " + code
	case e.kind == down:
		return "the server fails " + code
	case e.kind == tooLong:
		return "the prompt is longer than the model's context " + code
	case e.kind == refused:
		return "the server refused this prompt " + code
	case x.status == http.StatusPaymentRequired, x.status == http.StatusTooManyRequests:
		return "the account has no quota left " + code + ": check its plan and billing"
	case x.status == http.StatusNotFound, x.status == http.StatusMethodNotAllowed, e.Code == "model_not_found":
		return fmt.Sprintf("the server does not know the model %q or the path %s: check %s and %s",
			s.cfg.Model, code, s.settings.flag("model"), s.settings.flag("base-url"))
	case x.status/100 == 3:
		return fmt.Sprintf("the server redirects %s to %q: put the right address into %s", code, x.header.Get("Location"), s.settings.flag("base-url"))
	case x.status == http.StatusForbidden:
		return fmt.Sprintf("the server denies access %s: check that the key may use the model %q", code, s.cfg.Model)
	case s.cfg.APIKey == "":
		return "the server wants a key " + code + ": set " + s.settings.key
	}
	return "the server refused the key " + code + ": check " + s.settings.key
}

// presentable takes the key out, wherever the server or a URL may have put it, and what is more than a person reads.
func (s *server) presentable(text string) string {
	const most = 400
	if key := string(s.cfg.APIKey); len(key) > 3 { // "x", as local servers are given, is no secret and in many words
		text = strings.ReplaceAll(text, key, hidden)
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// said is what an error body says, in any of the shapes that servers have.
type said struct {
	Text, Type, Code, Param string
}

// about says whether it is about one of these words, which are in lower case.
func (s said) about(words ...string) bool {
	text := strings.ToLower(s.Param + " " + s.Text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

var (
	contextWords  = regexp.MustCompile(`(?i)context[ _](length|window|size)|maximum context|prompt is too long|input is too long|too many (input )?tokens|reduce the length`)
	tooLargeWords = regexp.MustCompile(`(?i)^request too large`)
	keyWords      = regexp.MustCompile(`(?i)(api|authentication)[ _]?key|invalid_authentication`)
	quotaWords    = regexp.MustCompile(`^(insufficient_quota|insufficient_balance|billing_hard_limit_reached|billing_not_active)$`)
)

// kind tells a status other than 200. For a 429 only the code counts: "quota" in the text of a Gemini server is a rate.
func (s said) kind(status int) kind {
	switch status {
	case http.StatusRequestTimeout:
		return down
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusTooEarly:
		switch {
		case quotaWords.MatchString(s.Code), quotaWords.MatchString(s.Type):
			return misconfigured
		case tooLargeWords.MatchString(s.Text): // for the account's rate, however long one waits
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
	case s.Code == "model_not_found", s.Code == "invalid_api_key", keyWords.MatchString(s.Text):
		return misconfigured
	case contextWords.MatchString(s.Code + " " + s.Type + " " + s.Text):
		return tooLong
	}
	return refused
}

const pageOfHTML = "a page of HTML"

// parseSaid reads {"error":{…}}, {"error":"text"}, {"message":…}, {"detail":…}, a list of one of these, and anything.
func parseSaid(body []byte) said {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		if text := strings.TrimSpace(string(body)); strings.HasPrefix(text, "<") {
			return said{Text: pageOfHTML}
		}
		return said{Text: string(body)}
	}
	inner := outer
	var nested map[string]json.RawMessage
	if json.Unmarshal(outer["error"], &nested) == nil && nested != nil {
		inner = nested
	}
	s := said{Type: plain(inner["type"]), Code: plain(inner["code"]), Param: plain(inner["param"])}
	for _, field := range []json.RawMessage{inner["message"], inner["error"], inner["detail"]} {
		if s.Text = plain(field); s.Text != "" {
			return s
		}
	}
	s.Text = string(body)
	return s
}

// plain is a JSON string without its quotes, nothing for null, and any other value as it is written.
func plain(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// retryAfter is how long the server asks to wait: in OpenAI's milliseconds, in seconds, or until a date. At most a day.
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
			now = date // the server's clock is the one that the date was read from
		}
		d = t.Sub(now)
	}
	return min(max(d, 0), 24*time.Hour)
}

// seconds is safe where a conversion of a large or strange number is not.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, 86400) * float64(time.Second))
}

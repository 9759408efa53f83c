package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"

	"debrief/events"
	"debrief/events/service"
)

// Problem is the body of an error response (RFC 9457), with the content type application/problem+json.
type Problem struct {
	Title  string `json:"title" doc:"Text of the HTTP status."`
	Status int    `json:"status" doc:"HTTP status."`
	Detail string `json:"detail" doc:"Reason, for people; it may name what to do."`
	Code   Code   `json:"code" doc:"Reason, for programs."`
	Field  string `json:"field,omitempty" doc:"Invalid field of the body, parameter or header."`

	RequestID string `json:"request_id" doc:"Id of the request; the log of the server has it."`
	// Conflicts has the bullets that have changed since the author of an edit read them.
	Conflicts []Conflict `json:"conflicts,omitempty" doc:"Current texts of the bullets that changed since the author of the edit read them; a removed bullet has no text."`
	// Runs names the runs that an ambiguous id fits.
	Runs []string `json:"runs,omitempty" doc:"Runs that the id of the request fits: handles of executions, or ids of open runs. Each names one run."`
}

// Conflict is a bullet that has changed since the author of an edit read it.
type Conflict struct {
	events.Expectation
	Read *events.Expectation `json:"read,omitempty" doc:"The bullet as the author read it; missing if the edit did not name it."`
}

// Code is the reason of a problem. Later versions may have more codes.
type Code string

// The codes. A client that does not know a code goes by the status.
const (
	CodeInvalid     Code = "invalid"            // 400: field, parameter or header
	CodeUnauthn     Code = "unauthorized"       // 401: missing or unknown token
	CodeScope       Code = "scope-missing"      // 403: the token does not have the scope of the route
	CodeBook        Code = "book-forbidden"     // 403: the token does not permit the book
	CodeOrigin      Code = "cross-origin"       // 403: the request comes from a page of another site
	CodeNotFound    Code = "not-found"          // 404: the object does not exist or has expired
	CodeNoRoute     Code = "unknown-path"       // 404: no route has the path
	CodeMethod      Code = "method-not-allowed" // 405
	CodeSlow        Code = "body-too-slow"      // 408
	CodeConflict    Code = "conflict"           // 409: the state has changed, or the id was used before
	CodeErased      Code = "erased"             // 410: the run was erased, and is not stored again
	CodeTooLarge    Code = "body-too-large"     // 413
	CodeMedia       Code = "unsupported-media"  // 415: content type or encoding
	CodeMisdirected Code = "misdirected"        // 421: Host header that is not the loopback
	CodeRefused     Code = "refused"            // 422: valid, but the Curator or the server refused it
	CodeStreams     Code = "too-many-streams"   // 429: open streams of events of one token
	CodeInternal    Code = "internal"           // 500
	CodeUnavailable Code = "unavailable"        // 503
	CodeTimeout     Code = "timeout"            // 504: the request may have been stored
	codeOther       Code = "error"              // any other status
)

// codes are the default codes by status.
var codes = map[int]Code{
	http.StatusBadRequest: CodeInvalid, http.StatusUnauthorized: CodeUnauthn, http.StatusForbidden: CodeScope, http.StatusNotFound: CodeNotFound,
	http.StatusMethodNotAllowed: CodeMethod, http.StatusRequestTimeout: CodeSlow, http.StatusConflict: CodeConflict, http.StatusGone: CodeErased,
	http.StatusRequestEntityTooLarge: CodeTooLarge, http.StatusUnsupportedMediaType: CodeMedia, http.StatusMisdirectedRequest: CodeMisdirected,
	http.StatusTooManyRequests: CodeStreams, http.StatusUnprocessableEntity: CodeRefused, http.StatusInternalServerError: CodeInternal, http.StatusServiceUnavailable: CodeUnavailable,
	http.StatusGatewayTimeout: CodeTimeout,
}

// statusError is an error with the status and the code of its response.
type statusError struct {
	status    int
	code      Code
	field     string
	text      string
	conflicts []Conflict
}

func (e *statusError) Error() string { return e.text }

// invalid returns the error for an invalid field, parameter or header.
func invalid(field, text string) error {
	return &statusError{status: http.StatusBadRequest, code: CodeInvalid, field: field, text: field + ": " + text}
}

// notFound returns the error for an unknown object.
func notFound(text string) error {
	return &statusError{status: http.StatusNotFound, code: CodeNotFound, text: text}
}

// conflict returns the error for a request that does not fit the state of an object.
func conflict(text string) error {
	return &statusError{status: http.StatusConflict, code: CodeConflict, text: text}
}

// forbidden returns the error for a request that the token does not permit.
func forbidden(code Code, text string) error {
	return &statusError{status: http.StatusForbidden, code: code, text: text}
}

// newProblem returns the problem for an error, and the value of Retry-After, "" for none. Its calls of service.ErrorResponse also put the text
// of the error on one line.
func newProblem(err error) (p Problem, retryAfter string) {
	var ambiguous interface{ Names() []string } // an id that fits several runs
	if errors.As(err, &ambiguous) {
		r := service.ErrorResponse(service.NewError(http.StatusConflict, err.Error()))
		return Problem{Status: r.Code, Code: CodeConflict, Detail: r.Text, Runs: ambiguous.Names()}, ""
	}
	err = classify(err)
	var known *statusError
	if errors.As(err, &known) {
		r := service.ErrorResponse(service.NewError(known.status, known.text))
		return Problem{Status: known.status, Code: known.code, Field: known.field, Detail: r.Text, Conflicts: known.conflicts}, ""
	}
	r := service.ErrorResponse(err)
	p = Problem{Status: r.Code, Code: codes[r.Code], Detail: r.Text}
	if p.Code == "" {
		p.Code = codeOther
	}
	if r.Code == http.StatusBadRequest {
		p.Field = fieldOf(r.Text)
	}
	return p, r.RetryAfter()
}

// encode completes the problem and returns its JSON.
func (p Problem) encode(requestID string) []byte {
	p.Title, p.RequestID = http.StatusText(p.Status), requestID
	body, _ := json.Marshal(p) // texts and numbers cannot fail
	return append(body, '\n')
}

// namedField matches the field that an error text names: one of the body at the beginning, such as outcome.label, or an unknown one.
var namedField = regexp.MustCompile(`^(?:([a-z_]+(?:\[\d+\])?(?:\.[a-z_]+(?:\[\d+\])?)*): |unknown field "([^"]*)")`)

// fieldOf returns the field that an error text names, or "".
func fieldOf(text string) string {
	found := namedField.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return cmp.Or(found[1], found[2])
}

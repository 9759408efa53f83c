package console

import (
	"net/http"
	"net/url"

	"debrief/cmd/internal/api"
)

// get reads an object of the API. The path is below /api/v1. An error response is an *api.Error.
func (q *request) get(path string, query url.Values, into any) error {
	return q.send(http.MethodGet, path, query, "", nil, into)
}

// post sends an object to the API. A request that is repeated with the same key has no further effect. Into may be nil.
func (q *request) post(path, key string, body, into any) error {
	return q.send(http.MethodPost, path, nil, key, body, into)
}

// delete deletes an object of the API.
func (q *request) delete(path string) error {
	return q.send(http.MethodDelete, path, nil, "", nil, nil)
}

// send sends a request to the API in this process on behalf of the browser. The key is an idempotency key; "" is none.
func (q *request) send(method, path string, query url.Values, key string, body, into any) error {
	r, err := q.api.NewRequest(q.Context(), method, path, query, body)
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return q.api.Do(r, into)
}

// parameters returns the named parameters of the page for a list of the API. Empty ones are left out.
func (q *request) parameters(names ...string) url.Values {
	values := url.Values{"limit": {"50"}}
	for _, name := range names {
		if v := q.param(name); v != "" {
			values.Set(name, v)
		}
	}
	return values
}

// isNotFound reports whether an error is the response of the API for an object that does not exist.
func isNotFound(err error) bool { return api.StatusOf(err) == http.StatusNotFound }

// newError returns an error of the console itself, in the form of an error response of the API.
func newError(status int, code api.Code, text string) *api.Error {
	return &api.Error{Problem: api.Problem{Status: status, Code: code, Detail: text}}
}

// refuse returns the error of a form that the console refuses itself.
func refuse(text string) error { return newError(http.StatusBadRequest, api.CodeInvalid, text) }

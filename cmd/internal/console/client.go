package console

import (
	"net/http"
	"net/url"

	"debrief/cmd/internal/api"
)

// client calls the API in this process for a request of a browser. An error response is an *api.Error.
type client struct {
	api    *api.Client
	from   *http.Request
	secret string // token of the browser; empty without one
}

// list is a part of a list of the API.
type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"` // value of the parameter "after" for the next part; empty at the end
}

// get reads an object of the API. The path is below /api/v1.
func (c *client) get(path string, query url.Values, into any) error {
	r, err := c.request(http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	return c.api.Do(r, into)
}

// post sends an object to the API. A request that is repeated with the same key has no further effect. Into may be nil.
func (c *client) post(path, key string, body, into any) error {
	r, err := c.request(http.MethodPost, path, nil, body)
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return c.api.Do(r, into)
}

// delete deletes an object of the API.
func (c *client) delete(path string) error {
	r, err := c.request(http.MethodDelete, path, nil, nil)
	if err != nil {
		return err
	}
	return c.api.Do(r, nil)
}

// request returns a request to the API on behalf of the browser.
func (c *client) request(method, path string, query url.Values, body any) (*http.Request, error) {
	return c.api.OnBehalf(c.from, c.secret).NewRequest(c.from.Context(), method, path, query, body)
}

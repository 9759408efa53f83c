package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"debrief/cmd/internal/api"
)

// apiError is an error response of the API.
type apiError struct{ api.Problem }

func (e *apiError) Error() string { return e.Detail }

// client calls the API in this process for a request of a browser.
type client struct {
	api    http.Handler
	from   *http.Request
	secret string // token of the browser; empty without one
}

// list is a part of a list of the API.
type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"` // value of the parameter "after" for the next part; empty at the end
}

// pathOf returns the escaped path of segments: "/books/default".
func pathOf(segments ...string) string {
	var out strings.Builder
	for _, s := range segments {
		out.WriteString("/" + url.PathEscape(s))
	}
	return out.String()
}

// get reads an object of the API. The path is below /api/v1.
func (c *client) get(path string, query url.Values, into any) error {
	return c.send(http.MethodGet, path, query, "", nil, into)
}

// post sends an object to the API. A request that is repeated with the same key has no further effect. Into may be nil.
func (c *client) post(path, key string, body, into any) error {
	return c.send(http.MethodPost, path, nil, key, body, into)
}

// delete deletes an object of the API.
func (c *client) delete(path string) error {
	return c.send(http.MethodDelete, path, nil, "", nil, nil)
}

// send calls the API. An error response becomes an *apiError.
func (c *client) send(method, path string, query url.Values, key string, body, into any) error {
	r, err := c.request(method, path, query, body)
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	out := &recorder{header: http.Header{}, status: http.StatusOK}
	c.api.ServeHTTP(out, r)
	if out.status >= http.StatusBadRequest {
		e := &apiError{}
		if json.Unmarshal(out.body.Bytes(), &e.Problem) != nil || e.Status == 0 {
			e.Status, e.Detail = out.status, http.StatusText(out.status)
		}
		return e
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(out.body.Bytes(), into); err != nil {
		return fmt.Errorf("reply of the API to %s %s: %w", method, path, err)
	}
	return nil
}

// request returns a request to the API on behalf of the browser.
func (c *client) request(method, path string, query url.Values, body any) (*http.Request, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("request to the API: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(c.from.Context(), method, "/api/v1"+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("request to the API: %w", err)
	}
	r.URL.RawQuery = query.Encode()
	r.Host, r.RemoteAddr = c.from.Host, c.from.RemoteAddr // without tokens the API checks the host
	r.Header.Set("X-Request-Id", c.from.Header.Get("X-Request-Id"))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.secret != "" {
		r.Header.Set("Authorization", "Bearer "+c.secret)
	}
	return r, nil
}

// recorder keeps a response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

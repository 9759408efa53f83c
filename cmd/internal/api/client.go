package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/events"
)

// Client calls the API of a gateway, or of a handler in this process.
type Client struct {
	base  string // URL without a path
	token string // secret; "" for none
	http  *http.Client
	from  *http.Request // the request that the client serves; nil: none
}

// NewClient returns a client of the gateway at an address such as http://127.0.0.1:4280. An empty token sends none. The caller
// limits the time of a request by its context.
func NewClient(address, token string) *Client {
	refuse := func(r *http.Request, _ []*http.Request) error {
		return fmt.Errorf("it redirects to %s: use the address of the gateway", r.URL)
	}
	return &Client{base: strings.TrimRight(address, "/"), token: token, http: &http.Client{CheckRedirect: refuse}}
}

// InProcess returns a client of a handler in this process.
func InProcess(h http.Handler) *Client {
	return &Client{base: "http://127.0.0.1", http: &http.Client{Transport: inProcess{h}}}
}

// OnBehalf returns a client of the handler in this process that calls it for the sender of a request, with the secret of a token, "" for
// none. The API then checks that sender: its token, its address, and the page or the proxy that the request comes from.
func (c *Client) OnBehalf(from *http.Request, secret string) *Client {
	out := *c
	out.from, out.token = from, secret
	return &out
}

// senderHeaders are the headers of a sender that the API checks or reports.
var senderHeaders = []string{"Origin", "Sec-Fetch-Site", "X-Request-Id", tokens.PersonHeader, events.HeaderControl}

// Address returns the address of the gateway.
func (c *Client) Address() string { return c.base }

// Error is an error response of the API.
type Error struct{ Problem }

func (e *Error) Error() string { return e.Detail }

// StatusOf returns the status of an error response, or 0 for another error.
func StatusOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// exitCode returns the exit code of a command for an error response.
func (e *Error) exitCode() int {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest:
		return program.ExitUsage
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout, http.StatusBadGateway, http.StatusTooManyRequests:
		return program.ExitUnreachable
	case http.StatusInternalServerError:
		return program.ExitFailed
	}
	return program.ExitRefused
}

// Path returns the escaped path of segments below /api/v1: "/books/default".
func Path(segments ...string) string {
	var out strings.Builder
	for _, s := range segments {
		out.WriteString("/" + url.PathEscape(s))
	}
	return out.String()
}

// Get reads an object. Empty parameters are left out.
func Get[T any](ctx context.Context, c *Client, path string, query map[string]string) (*T, error) {
	return send[T](ctx, c, http.MethodGet, path, query, nil)
}

// Post sends an object. Empty parameters are left out.
func Post[T any](ctx context.Context, c *Client, path string, query map[string]string, body any) (*T, error) {
	return send[T](ctx, c, http.MethodPost, path, query, body)
}

// Delete removes an object.
func Delete[T any](ctx context.Context, c *Client, path string) (*T, error) {
	return send[T](ctx, c, http.MethodDelete, path, nil, nil)
}

// List returns the first limit items of a list, page by page. A limit of 0 means all items. more reports whether the list has further
// items. List sets the parameters after and limit.
func List[T any](ctx context.Context, c *Client, path string, query map[string]string, limit int) (all []T, more bool, err error) {
	after := ""
	for {
		size := MaxLimit
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		parameters := map[string]string{}
		maps.Copy(parameters, query)
		parameters["after"], parameters["limit"] = after, fmt.Sprint(size)
		p, err := Get[Page[T]](ctx, c, path, parameters)
		if err != nil {
			return nil, false, err
		}
		all = append(all, p.Items...)
		after = p.Next
		if after == "" || limit > 0 && len(all) >= limit {
			return all, after != "", nil
		}
	}
}

// send sends a request and decodes the reply, as Do. A nil body sends none.
func send[T any](ctx context.Context, c *Client, method, path string, query map[string]string, body any) (*T, error) {
	values := url.Values{}
	for name, value := range query {
		if value != "" {
			values.Set(name, value)
		}
	}
	r, err := c.NewRequest(ctx, method, path, values, body)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := c.Do(r, out); err != nil {
		return nil, err
	}
	return out, nil
}

// NewRequest returns a request with the token of the client. The path is below /api/v1. A nil body sends none.
func (c *Client) NewRequest(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("request to the API: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+prefix+path, bytes.NewReader(data))
	if err != nil {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--url: want an address such as http://127.0.0.1:4280: %w", err))
	}
	r.URL.RawQuery = query.Encode()
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.from != nil {
		r.Host, r.RemoteAddr = c.from.Host, c.from.RemoteAddr // without tokens the API checks the host
		for _, name := range senderHeaders {
			if values := c.from.Header.Values(name); len(values) > 0 {
				r.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	return r, nil
}

// Do sends a request and decodes the reply into a value, unless that is nil. Its errors have the exit codes of commands. An error
// response is an *Error; a gateway that does not answer is ExitUnreachable.
func (c *Client) Do(r *http.Request, into any) error {
	resp, err := c.http.Do(r)
	if err != nil {
		if r.Context().Err() != nil {
			return err
		}
		reason := errors.Unwrap(err) // without the method and the URL, which Do adds
		return program.Exit(program.ExitUnreachable, fmt.Errorf("gateway %s: %w", c.base, reason))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return program.Exit(program.ExitUnreachable, fmt.Errorf("gateway %s: read the reply: %w", c.base, err))
	}
	if resp.StatusCode >= http.StatusBadRequest {
		e := &Error{}
		if json.Unmarshal(data, &e.Problem) != nil || e.Status == 0 {
			e.Status, e.Detail = resp.StatusCode, fmt.Sprintf("%s: %s: is this the address of the gateway?", c.base, resp.Status)
		}
		return program.Exit(e.exitCode(), e)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: reply to %s %s: %w: is this the address of the gateway?", c.base, r.Method, r.URL.Path, err)
	}
	return nil
}

// inProcess is the transport to a handler in this process.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	out := &recorder{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(out, r)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", out.status, http.StatusText(out.status)), StatusCode: out.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header, Body: io.NopCloser(&out.body), Request: r,
	}, nil
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

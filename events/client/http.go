package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"debrief/events"
	"debrief/playbook"
)

// HTTP returns a client of the API at an address such as http://127.0.0.1:4280. The address needs a scheme: without one each request
// fails. An empty token sends none.
func HTTP(address, token string) *Client {
	t := &httpTransport{base: strings.TrimRight(address, "/") + "/api/v1/", token: token, client: &http.Client{CheckRedirect: refuseRedirect}}
	return &Client{transport: t, delay: defaultDelay}
}

// FromEnv returns a client of the API with the settings of the environment, as in Python and JavaScript: DEBRIEF_URL
// (default http://127.0.0.1:4280), DEBRIEF_API_TOKEN (default none) and DEBRIEF_BOOK, which sets Client.Book.
func FromEnv() (*Client, error) {
	address := cmp.Or(os.Getenv("DEBRIEF_URL"), "http://127.0.0.1:4280")
	if !hasScheme(address) {
		return nil, fmt.Errorf("DEBRIEF_URL: %q: want an address such as http://127.0.0.1:4280", address)
	}
	c := HTTP(address, os.Getenv("DEBRIEF_API_TOKEN"))
	c.Book = playbook.Book(os.Getenv("DEBRIEF_BOOK"))
	return c, nil
}

// errAddress marks the error of a client with an invalid address: no request can succeed.
var errAddress = errors.New("invalid address")

func hasScheme(address string) bool {
	return strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")
}

// refuseRedirect keeps a redirect as the reply: another server would get the token.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

type httpTransport struct {
	base, token string
	client      *http.Client
}

// paths are the paths of the verbs below the base.
var paths = map[string]string{events.VerbContext: "contexts", events.VerbReport: "executions", events.VerbFeedback: "feedback"}

// maxReply bounds a reply, in bytes.
const maxReply = 64 << 20

func (t *httpTransport) send(ctx context.Context, m *message) ([]byte, error) {
	verb := m.verb
	if !hasScheme(t.base) {
		return nil, &Error{Verb: verb, Text: "address: needs http:// or https://", Err: errAddress}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+paths[verb], bytes.NewReader(m.body))
	if err != nil {
		return nil, &Error{Verb: verb, Text: "address: " + err.Error(), Err: errors.Join(errAddress, err)}
	}
	req.Header.Set("Content-Type", "application/json")
	if m.trace != "" {
		req.Header.Set(events.HeaderTrace, m.trace)
	}
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, &Error{Verb: verb, Text: err.Error() + ": is 'debrief up' or the gateway running?", Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, &Error{Verb: verb, Text: "read the reply: " + err.Error(), Err: err}
	case len(reply) > maxReply:
		return nil, &Error{Verb: verb, Code: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("reply over %d bytes: request a smaller limit", maxReply)}
	case resp.StatusCode/100 == 2:
		return reply, nil
	}
	return nil, &Error{Verb: verb, Code: resp.StatusCode, Text: problemText(resp, reply), Delay: seconds(resp.Header.Get("Retry-After"))}
}

// problemText returns the text of an error response: the text of a problem (RFC 9457), else the status.
func problemText(resp *http.Response, body []byte) string {
	var problem struct{ Title, Detail, Field string }
	_ = json.Unmarshal(body, &problem) // a proxy may reply with HTML
	text := cmp.Or(problem.Detail, problem.Title, http.StatusText(resp.StatusCode), "error")
	if problem.Field != "" && !strings.Contains(text, problem.Field) {
		text = problem.Field + ": " + text
	}
	if resp.StatusCode == http.StatusUnauthorized {
		text += ": pass a token of the tokens file"
	}
	return text
}

package learning

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"debrief/events"
)

// httpAgent sends the requests of an outside agent to the HTTP API. It implements service.Backend.
type httpAgent struct{ url string }

// Context requests a context.
func (a httpAgent) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	return post[events.ContextReply](ctx, a.url+"/api/v1/contexts", r)
}

// Report reports an execution.
func (a httpAgent) Report(ctx context.Context, r *events.Report) (*events.StoredReply, error) {
	return post[events.StoredReply](ctx, a.url+"/api/v1/executions", r)
}

// Feedback reports a later outcome.
func (a httpAgent) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	return post[events.StoredReply](ctx, a.url+"/api/v1/feedback", r)
}

// attempts is the number of times that an agent sends a request while the server is not available.
const attempts = 6

// post sends a JSON body and decodes the JSON reply. A status other than 2xx is an error with the text of the reply. While the server
// is not available, it sends the same body again, as the reply asks for.
func post[T any](ctx context.Context, url string, body any) (*T, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	for pause := time.Second; ; pause *= 2 {
		out, err := postOnce[T](ctx, url, raw)
		if !errors.Is(err, errUnavailable) || pause >= time.Second<<attempts {
			return out, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

var errUnavailable = errors.New("server not available")

func postOnce[T any](ctx context.Context, url string, raw []byte) (*T, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("POST %s: %w", url, err)
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return nil, fmt.Errorf("POST %s: %w: %s", url, errUnavailable, bytes.TrimSpace(text))
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("POST %s: status %d: %s", url, resp.StatusCode, bytes.TrimSpace(text))
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("POST %s: decode the reply: %w", url, err)
	}
	return out, nil
}

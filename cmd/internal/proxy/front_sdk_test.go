package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestSDKsWithAdvice runs the conversations of the official SDKs with advice and capture. The provider must get the bytes of the
// client, with nothing but the advice at the ends of user messages.
func TestSDKsWithAdvice(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, kit := range sdks {
		t.Run(kit.Name, func(t *testing.T) {
			t.Parallel()
			h := openFront(t, "tail", sdkScript(), "Globes stand in the map room.")
			_, status, data := h.post("/api/v1/contexts", []byte(`{"query": "Where is the globe?", "advice": true}`))
			var advice struct{ Messages []struct{ Content string } }
			if err := json.Unmarshal(data, &advice); err != nil || status != http.StatusOK || len(advice.Messages) != 1 || advice.Messages[0].Content == "" {
				t.Fatalf("got %d %s (%v)", status, data, err)
			}
			sent := &sentBodies{T: t}
			client := &http.Client{Transport: sent, Timeout: patience}
			suite := sdkSuite{SDK: kit, URL: h.front.URL(), Client: client, Suffix: "\nThis line is long enough to select advice."}
			suite.Run(t)
			received := h.received()
			if len(sent.bodies) != len(received) {
				t.Fatalf("the clients sent %d calls of models, the provider got %d", len(sent.bodies), len(received))
			}
			text, advised := strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(advice.Messages[0].Content), 0
			without := strings.NewReplacer(`\n\n`+text, "", `,{"type":"text","text":"`+text+`"}`, "", `,{"type":"input_text","text":"`+text+`"}`, "")
			for i, r := range received {
				if got := without.Replace(string(r.Body)); got != sent.bodies[i] {
					t.Errorf("call %d: the provider got %.2000s\nwant %.2000s", i, r.Body, sent.bodies[i])
				}
				if strings.Contains(string(r.Body), text) {
					advised++
				}
			}
			if advised < len(received)*9/10 { // calls for the other book have none
				t.Errorf("%d of %d calls have advice", advised, len(received))
			}
		})
	}
}

// sentBodies keeps the bodies of calls of models.
type sentBodies struct {
	*testing.T
	mu     sync.Mutex
	bodies []string
}

// RoundTrip implements http.RoundTripper.
func (s *sentBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/books/sales"), "/anthropic")
	if path == "/v1/chat/completions" || path == "/v1/responses" || path == "/v1/messages" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	passes := strings.HasSuffix(path, "/embeddings") || strings.HasSuffix(path, "/count_tokens")
	if err == nil && (res.Header.Get("X-Debrief-Degraded") != "") != passes && r.Method == http.MethodPost {
		s.Errorf("%s: degraded: %s", r.URL.Path, res.Header.Get("X-Debrief-Degraded"))
	}
	return res, err
}

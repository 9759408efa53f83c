package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestEveryUnseenCallSaysSo makes calls in each form, and looks at the path that the provider got, at the header, and at the
// observation.
func TestEveryUnseenCallSaysSo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen, observed []string
	url := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.URL.Path)
	})
	done := make(chan *record, 1)
	edit := func(context.Context, *Call) (*Edit, error) { return &Edit{Recorder: &record{done: done}}, nil }
	observe := func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		if o.Work {
			observed = append(observed, o.Uncaptured)
		}
	}
	s, c := open(t, url, gatewayOptions{Middleware: middleware(edit), Mode: ModeTail, Observe: observe})
	for _, test := range []struct {
		name, method, path string
		upstream           string // path; "" is the same
		reads              bool
		degraded           string // beginning of the header
		observed           string // "" if the call cannot teach
	}{
		{name: "repeated slashes", method: "POST", path: "/v1//chat/completions", upstream: "/v1/chat/completions", reads: true},
		{name: "a slash at the end", method: "POST", path: "/v1/responses/", upstream: "/v1/responses", reads: true},
		{name: "another /v1", method: "POST", path: "/anthropic/v1/v1/messages", upstream: "/v1/messages", reads: true},
		{name: "a poll", method: "GET", path: "/v1/responses/resp_1", reads: true},
		{name: "the items of a response", method: "GET", path: "/v1/responses/resp_1/input_items"},
		{name: "models", method: "GET", path: "/v1/models"},
		{name: "another API", method: "POST", path: "/v1/completions", degraded: "the gateway does not read", observed: "path"},
		{name: "embeddings", method: "POST", path: "/v1/embeddings", degraded: "embeddings"},
		{name: "a count of tokens", method: "POST", path: "/v1/messages/count_tokens", degraded: "a count of tokens"},
	} {
		seen, observed = nil, nil
		res, _ := do(t, c, test.method, s.URL()+test.path, "{}")
		if test.reads {
			<-done
		}
		want := test.upstream
		if want == "" {
			want = test.path
		}
		mu.Lock()
		if len(seen) != 1 || seen[0] != want {
			t.Errorf("%s: the provider got %v, want %s", test.name, seen, want)
		}
		mu.Unlock()
		if got := res.Header.Get(headerDegraded); got == "" != (test.degraded == "") || !strings.HasPrefix(got, test.degraded) {
			t.Errorf("%s: got the reason %q", test.name, got)
		}
		if test.observed != "" { // reported after the response
			for range 100 {
				mu.Lock()
				isReported := len(observed) > 0
				mu.Unlock()
				if isReported {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			mu.Lock()
			if len(observed) != 1 || observed[0] != test.observed {
				t.Errorf("%s: observed %v", test.name, observed)
			}
			mu.Unlock()
		}
	}
}

// TestWebSocketOfResponses: the upgrade is refused, except in ModeOff.
func TestWebSocketOfResponses(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	edit := func(context.Context, *Call) (*Edit, error) { return nil, nil }
	s, c := open(t, url, gatewayOptions{Middleware: middleware(edit), Mode: ModeTail})
	for mode, want := range map[string]int{"tail": http.StatusUpgradeRequired, "observe": http.StatusUpgradeRequired, "off": http.StatusTeapot} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/v1/responses", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set(headerMode, mode)
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: got %d, want %d", mode, res.StatusCode, want)
		}
	}
}

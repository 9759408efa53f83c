package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/simulated"
)

// TestSDKs runs the conversations of the official SDKs through the gateway.
func TestSDKs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	runSDKs(t, "off", gatewayOptions{}, true)
	observe := func(context.Context, *Call) (*Edit, error) {
		return &Edit{Recorder: &record{done: make(chan *record, 1)}}, nil
	}
	runSDKs(t, "observe", gatewayOptions{Mode: ModeObserve, Middleware: middleware(observe)}, true)
	runSDKs(t, "tail", gatewayOptions{Mode: ModeTail, Middleware: middleware(insertAdvice)}, false)
}

// insertAdvice adds a text to the last user turn. Everything else of the body must stay, byte for byte.
func insertAdvice(_ context.Context, c *Call) (*Edit, error) {
	r, err := modelapi.Parse(c.API, c.Body)
	if err != nil || r.Turn() < 0 {
		return nil, err
	}
	body, err := r.Insert(map[int]string{r.Turn(): "<playbook>\nAdvice.\n</playbook>"}, "")
	if err != nil {
		return nil, err
	}
	begin := 0
	for begin < len(c.Body) && c.Body[begin] == body[begin] {
		begin++
	}
	if rest := c.Body[begin:]; !bytes.HasSuffix(body, rest) {
		return nil, errors.New("the insertion changed other bytes")
	}
	return &Edit{Body: body, Header: http.Header{"X-Debrief-Run": {"r"}}, Recorder: &record{done: make(chan *record, 1)}}, nil
}

// runSDKs runs the suite with each SDK. If exact is set, it compares all bytes of requests and responses on both sides of
// the gateway.
func runSDKs(t *testing.T, name string, o gatewayOptions, exact bool) {
	for _, kit := range sdks {
		t.Run(name+"/"+kit.Name, func(t *testing.T) {
			t.Parallel()
			u := &suite{fake: simulated.NewProvider(sdkScript(), "fake"), sent: map[string]int{}, got: map[string]int{}}
			s, c := open(t, upstream(t, u.record), o)
			if exact {
				c.Transport = checkedTransport{t, u, c.Transport}
			}
			(&sdkSuite{SDK: kit, URL: s.URL(), Client: c}).Run(t)
			u.mu.Lock()
			defer u.mu.Unlock()
			if exact && !maps.Equal(u.sent, u.got) {
				t.Errorf("the bytes of %d responses arrived as %d others", len(u.sent), len(u.got))
			}
		})
	}
}

// suite is the run of one SDK.
type suite struct {
	fake *simulated.Provider

	mu        sync.Mutex
	sent, got map[string]int // responses that the upstream sent and the client got, by hash
}

// record serves the fake upstream, and counts the hashes of its responses.
func (u *suite) record(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.sent[string(sum.Sum(nil))]++
	}()
	withEmbeddings(u.fake).ServeHTTP(hashWriter{w, sum}, r)
}

// withEmbeddings adds embeddings to a provider, the same one for all texts.
func withEmbeddings(provider http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/embeddings" {
			provider.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set(simulated.HeaderReceived, hash(string(body)))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","model":"fake","usage":{"prompt_tokens":1,"total_tokens":1},"data":[{"object":"embedding","index":0,"embedding":[0.25,-0.5]}]}`)
	}
}

type hashWriter struct {
	http.ResponseWriter
	sum io.Writer
}

func (w hashWriter) Write(p []byte) (int, error) {
	_, _ = w.sum.Write(p)
	return w.ResponseWriter.Write(p)
}

func (w hashWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// checkedTransport checks that the upstream got the bytes of the client, and counts the hashes of the responses.
type checkedTransport struct {
	t    *testing.T
	u    *suite
	base http.RoundTripper
}

func (c checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	res, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if got := res.Header.Get(simulated.HeaderReceived); got != hash(string(body)) {
		c.t.Errorf("%s: the upstream got the hash %q of a body of %d bytes", r.URL.Path, got, len(body))
	}
	res.Body = &hashBody{ReadCloser: res.Body, u: c.u}
	return res, nil
}

type hashBody struct {
	io.ReadCloser
	u   *suite
	all []byte
}

func (b *hashBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.all = append(b.all, p[:n]...)
	return n, err
}

// Close reads the rest, because SDKs stop at the last event.
func (b *hashBody) Close() error {
	if b.u != nil {
		rest, _ := io.ReadAll(b.ReadCloser)
		sum := sha256.Sum256(append(b.all, rest...))
		b.u.mu.Lock()
		b.u.got[string(sum[:])]++
		b.u.mu.Unlock()
		b.u = nil
	}
	return b.ReadCloser.Close()
}

package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"debrief/cmd/internal/gateway/fakeupstream"
	"debrief/cmd/internal/wire"
)

// TestSDKs runs the conversations of the official SDKs through the gateway.
func TestSDKs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	runSDKs(t, "off", Options{}, true)
	observe := func(context.Context, *Call) (*Edit, error) {
		return &Edit{Recorder: &record{done: make(chan *record, 1)}}, nil
	}
	runSDKs(t, "observe", Options{Mode: ModeObserve, Middle: middle(observe)}, true)
	runSDKs(t, "tail", Options{Mode: ModeTail, Middle: middle(insertAdvice)}, false)
}

// insertAdvice adds a text to the last user turn. Everything else of the body must stay, byte for byte.
func insertAdvice(_ context.Context, c *Call) (*Edit, error) {
	r, err := wire.Parse(c.API, c.Body)
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
func runSDKs(t *testing.T, name string, o Options, exact bool) {
	for _, kit := range sdks {
		t.Run(name+"/"+kit.name, func(t *testing.T) {
			t.Parallel()
			u := &suite{sdk: kit, fake: fakeupstream.New(new(script).answer), sent: map[string]int{}, got: map[string]int{}}
			s, c := open(t, upstream(t, u.record), o)
			if exact {
				c.Transport = checkedTransport{t, u, c.Transport}
			}
			u.url, u.client = s.URL(), c
			for _, stream := range []bool{false, true} {
				for name, test := range conversations {
					t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) { test(t, u, stream) })
				}
			}
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
	sdk    sdk
	fake   *fakeupstream.Upstream
	url    string
	client *http.Client

	mu        sync.Mutex
	sent, got map[string]int // responses that the upstream sent and the client got, by hash
}

func (u *suite) agent() agent { return u.sdk.open(u.url, u.client, 0, false) }

// record serves the fake upstream, and counts the hashes of its responses.
func (u *suite) record(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.sent[string(sum.Sum(nil))]++
	}()
	u.fake.ServeHTTP(hashWriter{w, sum}, r)
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
	if got := res.Header.Get(fakeupstream.HeaderReceived); got != hash(string(body)) {
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

// script answers by the first line of the last user item.
type script struct {
	mu    sync.Mutex
	tried map[string]bool // texts of "flaky"
}

func (s *script) answer(r *fakeupstream.Request) fakeupstream.Answer {
	for i := range r.Items { // the model follows the user, not the advice
		if text, _, found := strings.Cut(r.Items[i].Text, "<playbook>"); found {
			r.Items[i].Text = strings.TrimSuffix(text, "\n\n")
		}
	}
	text, results, images := "", []fakeupstream.Result(nil), 0
	for _, it := range r.Items {
		if it.Role == "user" {
			text, results, images = it.Text, nil, it.Images
		}
		results = append(results, it.Results...)
	}
	line, _, _ := strings.Cut(text, "\n")
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "say":
		return fakeupstream.Answer{Text: rest}
	case "parallel":
		if len(results) > 0 {
			return fakeupstream.Answer{Text: fmt.Sprintf("%v", results)}
		}
		return fakeupstream.Answer{Text: "Two steps.", Calls: []fakeupstream.Call{{Name: "step", Arguments: `{"n":"first, with a long text"}`}, {Name: "step", Arguments: `{"n":"second"}`}}}
	case "loop":
		if fmt.Sprint(len(results)) == rest {
			return fakeupstream.Answer{Text: "done"}
		}
		return fakeupstream.Answer{Calls: []fakeupstream.Call{{Name: "step", Arguments: fmt.Sprintf(`{"n":"%d"}`, len(results))}}}
	case "images":
		return fakeupstream.Answer{Text: fmt.Sprint(images)}
	case "person":
		return fakeupstream.Answer{Text: fmt.Sprintf(`{"name":"schema %v","age":3}`, r.Schema)}
	case "refuse":
		return fakeupstream.Answer{Refusal: "I will not."}
	case "length":
		return fakeupstream.Answer{Text: "half a", Length: true}
	case "size":
		return fakeupstream.Answer{Text: fmt.Sprint(len(r.Body))}
	case "slow":
		return fakeupstream.Answer{Text: "one two three four five six", Delay: 5 * time.Millisecond, Ping: true}
	}
	return s.fail(verb, line, rest)
}

// fail answers with an error, or with a response that ends early.
func (s *script) fail(verb, line, rest string) fakeupstream.Answer {
	switch verb {
	case "status":
		a := fakeupstream.Answer{Message: "status " + rest}
		_, _ = fmt.Sscan(rest, &a.Status)
		if a.Status == 429 || a.Status == 529 {
			a.RetryAfter = "7"
		}
		return a
	case "flaky":
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tried == nil {
			s.tried = map[string]bool{}
		}
		if !s.tried[line] {
			s.tried[line] = true
			return fakeupstream.Answer{Status: 429, Message: "wait", RetryAfter: "0"}
		}
		return fakeupstream.Answer{Text: "at last"}
	case "cut":
		return fakeupstream.Answer{Text: "one two three four five six seven eight nine ten", Cut: 4}
	case "break":
		return fakeupstream.Answer{Text: "one two three four five six seven eight nine ten", Fail: true}
	}
	return fakeupstream.Answer{Status: 400, Message: "unknown verb " + verb}
}

// conversations are the tests of the suite.
var conversations = map[string]func(t *testing.T, u *suite, stream bool){
	"text":       textConversation,
	"parallel":   parallelConversation,
	"loop":       loopConversation,
	"formats":    formatsConversation,
	"errors":     errorsConversation,
	"retry":      retryConversation,
	"broken":     brokenConversation,
	"large body": largeConversation,
	"other":      otherCalls,
}

// ask sends a user turn, and fails the test after an error.
func ask(t *testing.T, a agent, text string, stream bool) turn {
	t.Helper()
	a.user(text, 0)
	got, err := a.send(t.Context(), stream)
	if err != nil {
		t.Fatalf("%.40s: %v", text, err)
	}
	return got
}

func textConversation(t *testing.T, u *suite, stream bool) {
	a := u.agent()
	for _, want := range []string{"Hello.", "Größe 漢字 🙂 \\u0000 \"quoted\" </script>", strings.Repeat("long text ", 1000) + "end", "slow"} {
		text := "say " + want
		if want == "slow" {
			text, want = "slow", "one two three four five six"
		}
		if got := ask(t, a, text, stream); got.text != want || got.finish != "stop" || got.id == "" || got.input == 0 {
			t.Errorf("got %+.200v, want %.40s", got, want)
		}
	}
}

func parallelConversation(t *testing.T, u *suite, stream bool) {
	a := u.agent()
	got := ask(t, a, "parallel", stream)
	want := []string{`step({"n":"first, with a long text"})`, `step({"n":"second"})`}
	if !slices.Equal(got.calls, want) || got.finish != "tools" {
		t.Fatalf("got %+v, want %v", got, want)
	}
	a.results("17", "failed")
	if got, err := a.send(t.Context(), stream); err != nil || !strings.Contains(got.text, " 17 ") || !strings.Contains(got.text, " failed ") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// loopConversation has 20 tool calls in each of two user turns. Each request extends the one before it, so the
// provider's cache works.
func loopConversation(t *testing.T, u *suite, stream bool) {
	a := u.agent()
	var last turn
	for range 2 {
		got := ask(t, a, "loop 20", stream)
		for i := range 20 {
			if want := fmt.Sprintf(`step({"n":"%d"})`, i); len(got.calls) != 1 || got.calls[0] != want {
				t.Fatalf("step %d: got %+v", i, got)
			}
			last = got
			a.results(strings.Repeat("result of the step ", 50))
			var err error
			if got, err = a.send(t.Context(), stream); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			if uncached := last.input - got.cached; uncached > 64 {
				t.Errorf("step %d: %d tokens of the last prompt of %d are not cached", i, uncached, last.input)
			}
		}
		if got.text != "done" {
			t.Errorf("got %+v", got)
		}
	}
}

func formatsConversation(t *testing.T, u *suite, stream bool) {
	a := u.agent()
	a.user("images", 3)
	if got, err := a.send(t.Context(), stream); err != nil || got.text != "3" {
		t.Errorf("images: got %+v, %v", got, err)
	}
	if got := ask(t, a, "refuse", stream); got.finish != "refusal" || got.refusal != "I will not." {
		t.Errorf("refusal: got %+v", got)
	}
	if got := ask(t, u.agent(), "length", stream); got.finish != "length" || got.text != "half a" {
		t.Errorf("length: got %+v", got)
	}
	var person struct {
		Name string
		Age  int
	}
	got := ask(t, u.sdk.open(u.url, u.client, 0, true), "person", stream)
	if err := json.Unmarshal([]byte(got.text), &person); err != nil || person.Name != "schema true" || person.Age != 3 {
		t.Errorf("structured output: got %+v, %v", got, err)
	}
}

func errorsConversation(t *testing.T, u *suite, stream bool) {
	for _, status := range []int{400, 401, 403, 404, 422, 429, 500, 503, 529} {
		a := u.agent()
		a.user(fmt.Sprint("status ", status), 0)
		_, err := a.send(t.Context(), stream)
		got, after, body := apiError(err)
		if got != status || (after == "7") != (status == 429 || status == 529) || !strings.Contains(body, fmt.Sprint("status ", status)) {
			t.Errorf("%d: got %d, Retry-After %q, %v", status, got, after, err)
		}
	}
}

func retryConversation(t *testing.T, u *suite, stream bool) {
	a := u.sdk.open(u.url, u.client, 2, false)
	if got := ask(t, a, fmt.Sprint("flaky ", stream), stream); got.text != "at last" {
		t.Errorf("got %+v", got)
	}
}

// brokenConversation has responses that end early: the SDK reports an error, and the next call works.
func brokenConversation(t *testing.T, u *suite, stream bool) {
	verbs := []string{"cut"}
	if stream {
		verbs = append(verbs, "break")
	}
	for _, verb := range verbs {
		a := u.agent()
		a.user(verb, 0)
		if got, err := a.send(t.Context(), stream); err == nil {
			t.Errorf("%s: got %+v without an error", verb, got)
		}
		if got := ask(t, a, "say again", stream); got.text != "again" {
			t.Errorf("%s: got %+v", verb, got)
		}
	}
}

func largeConversation(t *testing.T, u *suite, stream bool) {
	if stream {
		return // the request is the same
	}
	const size = 16 << 20
	if got := ask(t, u.agent(), "size\n"+strings.Repeat("x", size), stream); len(got.text) != 8 || got.text < fmt.Sprint(size) {
		t.Errorf("the upstream got %s bytes", got.text)
	}
}

// otherCalls makes calls beside the three model APIs, and one for another book.
func otherCalls(t *testing.T, u *suite, stream bool) {
	if u.sdk.name == "messages" {
		c := newAnthropic(u.url+"/books/sales/anthropic", u.client, 0)
		page, err := c.Models.List(t.Context(), anthropic.ModelListParams{})
		if err != nil || len(page.Data) != 1 || page.Data[0].ID != "claude-fake" {
			t.Errorf("models: got %+v, %v", page, err)
		}
		count, err := c.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
			Model: "claude-test", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))},
		})
		if err != nil || count.InputTokens == 0 {
			t.Errorf("count: got %+v, %v", count, err)
		}
		if got := ask(t, u.sdk.open(u.url+"/books/sales/anthropic", u.client, 0, false), "say x", stream); got.text != "x" {
			t.Errorf("got %+v", got)
		}
		return
	}
	c := newOpenAI(u.url+"/books/sales", u.client, 0)
	page, err := c.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "gpt-fake" {
		t.Errorf("models: got %+v, %v", page, err)
	}
	vectors, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "fake", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"x"}}})
	if err != nil || len(vectors.Data) != 1 || !slices.Equal(vectors.Data[0].Embedding, []float64{0.25, -0.5}) {
		t.Errorf("embeddings: got %+v, %v", vectors, err)
	}
	if got := ask(t, u.sdk.open(u.url+"/books/sales", u.client, 0, false), "say x", stream); got.text != "x" {
		t.Errorf("got %+v", got)
	}
}

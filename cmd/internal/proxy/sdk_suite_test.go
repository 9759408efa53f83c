package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"debrief/cmd/internal/simulated"
)

// sdkSuite is the set of conversations with one SDK.
type sdkSuite struct {
	SDK    sdk
	URL    string // of the gateway, whose upstream answers by Script
	Client *http.Client
	Suffix string // of each message of the user
}

// Run runs all conversations, streamed and not.
func (u *sdkSuite) Run(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for name, test := range conversations {
			t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) { test(t, u, stream) })
		}
	}
}

// open returns an agent with a base URL below that of the gateway.
func (u *sdkSuite) open(path string, retries int, schema bool) sdkAgent {
	return suffixedAgent{u.SDK.Open(u.URL+path, u.Client, retries, schema), u.Suffix}
}

func (u *sdkSuite) agent() sdkAgent { return u.open("", 0, false) }

// suffixed adds a text to each message of the user.
type suffixedAgent struct {
	sdkAgent
	suffix string
}

func (s suffixedAgent) User(text string, images int) { s.sdkAgent.User(text+s.suffix, images) }

// sdkScript returns the model of the suite. It follows the first line of the user's message, and ignores advice.
func sdkScript() simulated.Script { return new(sdkReplies).answer }

// sdkReplies answers by the first line of the last user item.
type sdkReplies struct {
	mu    sync.Mutex
	tried map[string]bool // texts of "flaky"
}

func (s *sdkReplies) answer(r *simulated.Request) simulated.Answer {
	for i := range r.Items { // the model follows the user, not the advice
		if text, _, found := strings.Cut(r.Items[i].Text, "<playbook>"); found {
			r.Items[i].Text = strings.TrimSuffix(text, "\n\n")
		}
	}
	text := ""
	results := []simulated.Result(nil)
	images := 0
	for _, it := range r.Items {
		if it.Role == "user" {
			text = it.Text
			results = nil
			images = it.Images
		}
		results = append(results, it.Results...)
	}
	line, _, _ := strings.Cut(text, "\n")
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "say":
		return simulated.Answer{Text: rest}
	case "parallel":
		if len(results) > 0 {
			return simulated.Answer{Text: fmt.Sprintf("%v", results)}
		}
		return simulated.Answer{Text: "Two steps.", Calls: []simulated.Call{{Name: "step", Arguments: `{"n":"first, with a long text"}`}, {Name: "step", Arguments: `{"n":"second"}`}}}
	case "loop":
		if fmt.Sprint(len(results)) == rest {
			return simulated.Answer{Text: "done"}
		}
		return simulated.Answer{Calls: []simulated.Call{{Name: "step", Arguments: fmt.Sprintf(`{"n":"%d"}`, len(results))}}}
	case "images":
		return simulated.Answer{Text: fmt.Sprint(images)}
	case "person":
		return simulated.Answer{Text: fmt.Sprintf(`{"name":"schema %v","age":3}`, r.Schema)}
	case "refuse":
		return simulated.Answer{Refusal: "I will not."}
	case "length":
		return simulated.Answer{Text: "half a", Length: true}
	case "size":
		return simulated.Answer{Text: fmt.Sprint(len(r.Body))}
	case "slow":
		return simulated.Answer{Text: "one two three four five six", Delay: 5 * time.Millisecond, Ping: true}
	}
	return s.fail(verb, line, rest)
}

// fail answers with an error, or with a response that ends early.
func (s *sdkReplies) fail(verb, line, rest string) simulated.Answer {
	switch verb {
	case "status":
		a := simulated.Answer{Message: "status " + rest}
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
			return simulated.Answer{Status: 429, Message: "wait", RetryAfter: "0"}
		}
		return simulated.Answer{Text: "at last"}
	case "cut":
		return simulated.Answer{Text: "one two three four five six seven eight nine ten", Cut: 4}
	case "break":
		return simulated.Answer{Text: "one two three four five six seven eight nine ten", Fail: true}
	}
	return simulated.Answer{Status: 400, Message: "unknown verb " + verb}
}

// conversations are the tests of the suite.
var conversations = map[string]func(t *testing.T, u *sdkSuite, stream bool){
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

// askSDK sends a user turn, and fails the test after an error.
func askSDK(t *testing.T, a sdkAgent, text string, stream bool) sdkTurn {
	t.Helper()
	a.User(text, 0)
	got, err := a.Send(t.Context(), stream)
	if err != nil {
		t.Fatalf("%.40s: %v", text, err)
	}
	return got
}

func textConversation(t *testing.T, u *sdkSuite, stream bool) {
	a := u.agent()
	for _, want := range []string{"Hello.", "Größe 漢字 🙂 \\u0000 \"quoted\" </script>", strings.Repeat("long text ", 1000) + "end", "slow"} {
		text := "say " + want
		if want == "slow" {
			text, want = "slow", "one two three four five six"
		}
		got := askSDK(t, a, text, stream)
		isWhole := got.Finish == "stop" && got.ID != "" && got.Input > 0
		if got.Text != want || !isWhole {
			t.Errorf("got %+.200v, want %.40s", got, want)
		}
	}
}

func parallelConversation(t *testing.T, u *sdkSuite, stream bool) {
	a := u.agent()
	got := askSDK(t, a, "parallel", stream)
	want := []string{`step({"n":"first, with a long text"})`, `step({"n":"second"})`}
	if !slices.Equal(got.Calls, want) || got.Finish != "tools" {
		t.Fatalf("got %+v, want %v", got, want)
	}
	a.Results("17", "failed")
	if got, err := a.Send(t.Context(), stream); err != nil || !strings.Contains(got.Text, " 17}") || !strings.Contains(got.Text, " failed}") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// loopConversation has 20 tool calls in each of two user turns. Each request extends the one before it, so the
// provider's cache works.
func loopConversation(t *testing.T, u *sdkSuite, stream bool) {
	a := u.agent()
	var last sdkTurn
	for range 2 {
		got := askSDK(t, a, "loop 20", stream)
		for i := range 20 {
			if want := fmt.Sprintf(`step({"n":"%d"})`, i); len(got.Calls) != 1 || got.Calls[0] != want {
				t.Fatalf("step %d: got %+v", i, got)
			}
			last = got
			a.Results(strings.Repeat("result of the step ", 50))
			var err error
			if got, err = a.Send(t.Context(), stream); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			if uncached := last.Input - got.Cached; uncached > 64 {
				t.Errorf("step %d: %d tokens of the last prompt of %d are not cached", i, uncached, last.Input)
			}
		}
		if got.Text != "done" {
			t.Errorf("got %+v", got)
		}
	}
}

func formatsConversation(t *testing.T, u *sdkSuite, stream bool) {
	a := u.agent()
	a.User("images", 3)
	if got, err := a.Send(t.Context(), stream); err != nil || got.Text != "3" {
		t.Errorf("images: got %+v, %v", got, err)
	}
	if got := askSDK(t, a, "refuse", stream); got.Finish != "refusal" || got.Refusal != "I will not." {
		t.Errorf("refusal: got %+v", got)
	}
	if got := askSDK(t, u.agent(), "length", stream); got.Finish != "length" || got.Text != "half a" {
		t.Errorf("length: got %+v", got)
	}
	var person struct {
		Name string
		Age  int
	}
	got := askSDK(t, u.open("", 0, true), "person", stream)
	if err := json.Unmarshal([]byte(got.Text), &person); err != nil || person.Name != "schema true" || person.Age != 3 {
		t.Errorf("structured output: got %+v, %v", got, err)
	}
}

func errorsConversation(t *testing.T, u *sdkSuite, stream bool) {
	for _, status := range []int{400, 401, 403, 404, 422, 429, 500, 503, 529} {
		a := u.agent()
		a.User(fmt.Sprint("status ", status), 0)
		_, err := a.Send(t.Context(), stream)
		got, after, body := apiError(err)
		wantAfter := ""
		if status == 429 || status == 529 { // see script.fail
			wantAfter = "7"
		}
		if got != status || after != wantAfter || !strings.Contains(body, fmt.Sprint("status ", status)) {
			t.Errorf("%d: got %d, Retry-After %q, %v", status, got, after, err)
		}
	}
}

func retryConversation(t *testing.T, u *sdkSuite, stream bool) {
	a := u.open("", 2, false)
	if got := askSDK(t, a, fmt.Sprint("flaky ", stream), stream); got.Text != "at last" {
		t.Errorf("got %+v", got)
	}
}

// brokenConversation has responses that end early: the SDK reports an error, and the next call works.
func brokenConversation(t *testing.T, u *sdkSuite, stream bool) {
	verbs := []string{"cut"}
	if stream {
		verbs = append(verbs, "break")
	}
	for _, verb := range verbs {
		a := u.agent()
		a.User(verb, 0)
		if got, err := a.Send(t.Context(), stream); err == nil {
			t.Errorf("%s: got %+v without an error", verb, got)
		}
		if got := askSDK(t, a, "say again", stream); got.Text != "again" {
			t.Errorf("%s: got %+v", verb, got)
		}
	}
}

func largeConversation(t *testing.T, u *sdkSuite, stream bool) {
	if stream {
		return // the request is the same
	}
	const size = 16 << 20
	if got := askSDK(t, u.agent(), "size\n"+strings.Repeat("x", size), stream); len(got.Text) != 8 || got.Text < fmt.Sprint(size) {
		t.Errorf("the upstream got %s bytes", got.Text)
	}
}

// otherCalls makes calls beside the three model APIs, and one for another book.
func otherCalls(t *testing.T, u *sdkSuite, stream bool) {
	if u.SDK.Name == "messages" {
		c := newAnthropic(u.URL+"/books/sales/anthropic", u.Client, 0)
		page, err := c.Models.List(t.Context(), anthropic.ModelListParams{})
		if err != nil || len(page.Data) != 1 || page.Data[0].ID != "fake" {
			t.Errorf("models: got %+v, %v", page, err)
		}
		count, err := c.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
			Model: "claude-test", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))},
		})
		if err != nil || count.InputTokens == 0 {
			t.Errorf("count: got %+v, %v", count, err)
		}
		if got := askSDK(t, u.open("/books/sales/anthropic", 0, false), "say x", stream); got.Text != "x" {
			t.Errorf("got %+v", got)
		}
		return
	}
	c := newOpenAI(u.URL+"/books/sales", u.Client, 0)
	page, err := c.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "fake" {
		t.Errorf("models: got %+v, %v", page, err)
	}
	vectors, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "fake", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"x"}}})
	if err != nil || len(vectors.Data) != 1 || !slices.Equal(vectors.Data[0].Embedding, []float64{0.25, -0.5}) {
		t.Errorf("embeddings: got %+v, %v", vectors, err)
	}
	if got := askSDK(t, u.open("/books/sales", 0, false), "say x", stream); got.Text != "x" {
		t.Errorf("got %+v", got)
	}
}

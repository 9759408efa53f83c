package simulated

import (
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goopenai "github.com/sashabaranov/go-openai"

	"debrief/events/chat"
	"debrief/events/chat/openai"
)

func cosine(v, w []float32) (dot float64) {
	for i := range v {
		dot += float64(v[i]) * float64(w[i])
	}
	return dot
}

func TestSharedWordsGiveHighCosine(t *testing.T) {
	t.Parallel()
	_, url := startServer(t, Options{})
	e, err := openai.NewEmbedder(openai.Config{BaseURL: url, Model: embeddingName})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	texts := []string{
		"The build fails since the tests of the parser time out.",
		"the parser's tests time out and the BUILD fails",
		"Gold customers get seven percent off their invoices.",
		" ", strings.Repeat("x", 100_000), "naïve é\xff\x00", "a",
	}
	got, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if square := cosine(v, v); len(v) != 256 || math.Abs(square-1) > 1e-5 {
			t.Errorf("text %d: got %d numbers of length %v, want 256 of 1", i, len(v), square)
		}
	}
	if near, far := cosine(got[0], got[1]), cosine(got[0], got[2]); near < 0.5 || far > 0.3 {
		t.Errorf("got cosines %.2f and %.2f, want more than 0.5 and less than 0.3", near, far)
	}
	for i := range texts { // a text has the same vector alone and in a list
		alone, err := e.Embed(t.Context(), texts[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got[i], alone[0]); diff != "" {
			t.Errorf("text %d: -together +alone:\n%s", i, diff)
		}
	}
	if s := e.Stats(); s.InputTokens == 0 {
		t.Errorf("got %+v, want tokens", s)
	}
}

func TestEmbeddingsAreReturnedOutOfOrder(t *testing.T) {
	t.Parallel()
	client, _ := startServer(t, Options{})
	out, err := client.CreateEmbeddings(t.Context(), goopenai.EmbeddingRequest{
		Model: embeddingName, Input: []string{"a", "b", "c", "d", "e", "f", "g", "h"}, Dimensions: 8,
	})
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	for _, d := range out.Data {
		order = append(order, d.Index)
		if len(d.Embedding) != 8 {
			t.Errorf("got %d numbers, want 8", len(d.Embedding))
		}
	}
	if slices.IsSorted(order) {
		t.Errorf("got the sorted order %v, want another", order)
	}
	if slices.Sort(order); !slices.Equal(order, []int{0, 1, 2, 3, 4, 5, 6, 7}) || out.Model != embeddingName || out.Usage.TotalTokens != 2 {
		t.Errorf("got indexes %v, model %s, usage %+v", order, out.Model, out.Usage)
	}
}

func TestInvalidEmbeddingRequestsAreRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"no JSON":         {`what?`, 400},
		"another model":   {`{"model":"` + Name + `","input":"a"}`, 404},
		"no texts":        {`{"model":"` + embeddingName + `","input":[]}`, 400},
		"an empty text":   {`{"model":"` + embeddingName + `","input":["a",""]}`, 400},
		"tokens":          {`{"model":"` + embeddingName + `","input":[1,2]}`, 400},
		"too many texts":  {`{"model":"` + embeddingName + `","input":["a"` + strings.Repeat(`,"a"`, maxTexts) + `]}`, 400},
		"base64":          {`{"model":"` + embeddingName + `","input":"a","encoding_format":"base64"}`, 400},
		"odd dimensions":  {`{"model":"` + embeddingName + `","input":"a","dimensions":-1}`, 400},
		"many dimensions": {`{"model":"` + embeddingName + `","input":"a","dimensions":1000000000}`, 400},
		"too long":        {`{"input":"` + strings.Repeat("a", maxBodyBytes) + `"}`, 413},
	} {
		w := httptest.NewRecorder()
		Handler(Options{}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/embeddings", strings.NewReader(test.body)))
		if w.Code != test.want || !strings.Contains(w.Body.String(), "simulated") {
			t.Errorf("%s: got %d %.80s, want %d", name, w.Code, w.Body, test.want)
		}
	}
}

func TestEmbeddingRequestsFailAndAreRetried(t *testing.T) {
	t.Parallel()
	_, url := startServer(t, Options{FaultRate: 0.5})
	e, err := openai.NewEmbedder(openai.Config{BaseURL: url, Model: embeddingName, Attempts: 20, Backoff: time.Millisecond, BreakerThreshold: 1000, RetryRatio: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i := range 10 {
		if _, err := e.Embed(t.Context(), []string{strings.Repeat("a", i+1)}); err != nil {
			t.Errorf("text %d: %v", i, err)
		}
	}
	if s := e.Stats(); s.Retries == 0 {
		t.Errorf("got %+v, want retries", s)
	}
}

// Agents send messages that contain only tool calls, and messages with the results.
func TestToolCallsAreAccepted(t *testing.T) {
	t.Parallel()
	_, url := startServer(t, Options{})
	c, err := openai.New(openai.Config{BaseURL: url, Model: Name})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	spent := 0
	for _, arguments := range []string{`{"path":"a.go"}`, `{"path":"` + strings.Repeat("a", 400) + `"}`} {
		reply, err := c.Complete(t.Context(), chat.Prompt{Messages: []chat.Message{
			{Speaker: chat.User, Text: "What is in a.go?"},
			{Speaker: chat.Assistant, Calls: []chat.Call{{ID: "c1", Tool: "read", Arguments: arguments}}},
			{Speaker: chat.Tool, CallID: "c1"},
			{Speaker: chat.User, Text: "And now?"},
		}})
		if err != nil || !strings.Contains(reply.Text, "simulated") {
			t.Fatalf("got %q, %v, want a reply that mentions simulated", reply.Text, err)
		}
		if reply.Usage.InputTokens < spent+15 {
			t.Errorf("got %d tokens after %d, want the arguments counted", reply.Usage.InputTokens, spent)
		}
		spent = reply.Usage.InputTokens
	}
}

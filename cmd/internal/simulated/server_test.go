package simulated

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

// startServer serves the model over TCP and returns a client of the go-openai library and the base URL.
func startServer(t *testing.T, o Options) (*openai.Client, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	url, wait, err := Serve(ctx, "", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := wait(); err != nil {
			t.Errorf("wait: %v", err)
		}
		if _, err := http.Get(url + "/models"); err == nil {
			t.Error("the server still answers after its context ended")
		}
	})
	config := openai.DefaultConfig("none")
	config.BaseURL = url
	return openai.NewClientWithConfig(config), url
}

func ask(p chat.Prompt) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{Model: Name}
	for _, m := range p.Messages {
		r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: m.Speaker, Content: m.Text})
	}
	return r
}

func TestStreamEqualsReply(t *testing.T) {
	t.Parallel()
	client, _ := startServer(t, Options{})
	train, _ := Tasks(1)
	in := ask(generatorPrompt(t, &train[0]))
	whole, err := client.CreateChatCompletion(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Model != Name || whole.SystemFingerprint != fingerprint || whole.Choices[0].FinishReason != openai.FinishReasonStop {
		t.Errorf("got model %q, fingerprint %q, finish %q", whole.Model, whole.SystemFingerprint, whole.Choices[0].FinishReason)
	}
	if n := len(in.Messages[0].Content) + len(in.Messages[1].Content); whole.Usage.PromptTokens != (n+3)/4 || whole.Usage.CompletionTokens == 0 {
		t.Errorf("got usage %+v for %d bytes, want a quarter", whole.Usage, n)
	}

	in.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	s, err := client.CreateChatCompletionStream(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var text strings.Builder
	var finish openai.FinishReason
	var usage *openai.Usage
	for {
		event, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if event.Usage != nil {
			usage = event.Usage
		}
		for _, c := range event.Choices {
			text.WriteString(c.Delta.Content)
			finish = c.FinishReason
		}
	}
	if text.String() != whole.Choices[0].Message.Content || finish != openai.FinishReasonStop {
		t.Errorf("got %q, finish %q, want %q", text.String(), finish, whole.Choices[0].Message.Content)
	}
	if usage == nil || !reflect.DeepEqual(*usage, whole.Usage) {
		t.Errorf("got usage %v, want %v", usage, whole.Usage)
	}
}

func TestReplyIsCutAtTheTokenLimit(t *testing.T) {
	t.Parallel()
	client, _ := startServer(t, Options{})
	train, _ := Tasks(1)
	in := ask(generatorPrompt(t, &train[0]))
	in.MaxCompletionTokens = 10
	out, err := client.CreateChatCompletion(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if c := out.Choices[0]; c.FinishReason != openai.FinishReasonLength || len(c.Message.Content) > 40 {
		t.Errorf("got %d bytes, finish %q, want at most 40 and length", len(c.Message.Content), c.FinishReason)
	}
}

func TestModelsAreListed(t *testing.T) {
	t.Parallel()
	client, _ := startServer(t, Options{})
	list, err := client.ListModels(t.Context())
	if err != nil || len(list.Models) != 1 || list.Models[0].ID != Name {
		t.Errorf("got %v, %v, want the model", list.Models, err)
	}
	if m, err := client.GetModel(t.Context(), Name); err != nil || m.ID != Name {
		t.Errorf("got %v, %v, want %s", m, err, Name)
	}
	if _, err := client.GetModel(t.Context(), "gpt-5"); err == nil {
		t.Error("got an unknown model, want an error")
	}
}

func TestUnknownPromptGetsTextReply(t *testing.T) {
	t.Parallel()
	client, _ := startServer(t, Options{})
	in := openai.ChatCompletionRequest{Model: Name, Messages: []openai.ChatCompletionMessage{{
		Role: "user", MultiContent: []openai.ChatMessagePart{{Type: "text", Text: "How are you?"}},
	}}}
	out, err := client.CreateChatCompletion(t.Context(), in)
	if err != nil || !strings.Contains(out.Choices[0].Message.Content, "simulated") {
		t.Errorf("got %v, %v, want a reply that mentions simulated", out.Choices, err)
	}
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"no JSON":      {"what?", 400},
		"no messages":  {`{"model":"x"}`, 400},
		"no model":     {`{"messages":[{"role":"user","content":"x"}]}`, 400},
		"odd messages": {`{"model":"x","messages":[{"role":"user","content":7}]}`, 400},
		"odd choice":   {`{"model":"x","messages":[{"role":"user","content":"x"}],"tool_choice":7}`, 400},
		"too long":     {`{"messages":[{"role":"user","content":"` + strings.Repeat("a", maxBodyBytes) + `"}]}`, 413},
	} {
		w := httptest.NewRecorder()
		Handler(Options{}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(test.body)))
		if w.Code != test.want || !strings.Contains(w.Body.String(), "error") {
			t.Errorf("%s: got %d %.80s, want %d", name, w.Code, w.Body, test.want)
		}
	}
}

func TestFourKindsOfFaultsAndRetries(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	_, url := startServer(t, Options{FaultRate: 0.5})
	train, _ := Tasks(1)
	try := func(i int, streamed bool, retry string) string {
		raw := promptBody(generatorPrompt(t, &train[i]))
		if streamed {
			raw = bytes.Replace(raw, []byte("{"), []byte(`{"stream":true,`), 1)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/chat/completions", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(retryHeader, retry)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return "no reply"
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			return "cut"
		case resp.StatusCode == 429 && resp.Header.Get("Retry-After") != "":
			return "busy"
		case resp.StatusCode == 500:
			return "broken"
		case resp.StatusCode == 200 && bytes.Contains(text, []byte("<html>")):
			return "garbage"
		case resp.StatusCode == 200 && bytes.Contains(text, []byte("final_answer")) || streamed && bytes.Contains(text, []byte("[DONE]")):
			return "fine"
		}
		return resp.Status
	}
	seen := make(map[string]int)
	recovered := 0
	for i := range 60 {
		first := try(i, i%2 == 0, "0")
		seen[first]++
		if again := try(i, i%2 == 0, "0"); again != first {
			t.Errorf("request %d: got %s and then %s", i, first, again)
		}
		if first != "fine" && try(i, i%2 == 0, "1") == "fine" {
			recovered++
		}
	}
	if len(seen) != 5 || seen["fine"] < 15 || recovered == 0 {
		t.Errorf("got %v, %d recovered, want fine, busy, broken, cut and garbage, and some recovered", seen, recovered)
	}
}

func TestLatencyEndsWhenClientCancels(t *testing.T) {
	t.Parallel()
	client, _ := startServer(t, Options{Latency: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.CreateChatCompletion(ctx, openai.ChatCompletionRequest{Model: Name, Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "hello"}}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the client's deadline", err)
	}
}

func TestServeErrorContainsAddressInUse(t *testing.T) {
	t.Parallel()
	_, url := startServer(t, Options{})
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/v1")
	if _, _, err := Serve(t.Context(), addr, Options{}); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v, want an error that names %s", err, addr)
	}
}

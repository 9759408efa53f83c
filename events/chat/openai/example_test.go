package openai_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"debrief/events/chat"
	"debrief/events/chat/openai"
)

// A Client calls any server with the API of OpenAI.
func ExampleClient_Complete() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"model": "small-1", "choices": [{"message": {"role": "assistant", "content": "Four."}, "finish_reason": "stop"}],
			"usage": {"prompt_tokens": 12, "completion_tokens": 2}}`)
	}))
	defer server.Close()

	client, err := openai.New(openai.Config{BaseURL: server.URL + "/v1", Model: "small"})
	if err != nil {
		log.Fatal(err)
	}
	reply, err := client.Complete(context.Background(), chat.Prompt{
		Messages: []chat.Message{{Speaker: chat.User, Text: "What is two and two?"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text, reply.Model, reply.Usage.Tokens())
	// Output:
	// POST /v1/chat/completions
	// Four. small-1 14
}

package chat_test

import (
	"context"
	"fmt"

	"debrief/events/chat"
)

// forgetful answers first in prose, as models do.
type forgetful struct{ asked int }

func (f *forgetful) Complete(context.Context, chat.Prompt) (chat.Reply, error) {
	f.asked++
	if f.asked == 1 {
		return chat.Reply{Text: "It is forty-two.", Usage: chat.Usage{Calls: 1}}, nil
	}
	return chat.Reply{Text: "Sorry!\n```json\n{'final_answer': 42,}\n```", Usage: chat.Usage{Calls: 1}}, nil
}

func ExampleAsk() {
	type answer struct {
		FinalAnswer int `json:"final_answer"`
	}
	parse := func(r chat.Reply) (string, error) {
		reply, err := chat.ParseObject(r, "final_answer")
		return reply.Text("final_answer"), err
	}
	prompt := chat.Prompt{
		Name:     "generator",
		Messages: []chat.Message{{Speaker: chat.User, Text: "What is six times seven?"}},
		Schema:   chat.SchemaOf[answer](),
	}
	a, reply, err := chat.Ask(context.Background(), &forgetful{}, prompt, parse)
	fmt.Println(a, reply.Usage.Calls, err)
	// Output: 42 2 <nil>
}

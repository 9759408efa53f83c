package chat_test

import (
	"context"
	"encoding/json"
	"errors"
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
		FinalAnswer *int `json:"final_answer"`
	}
	parse := func(r chat.Reply) (answer, error) {
		var a answer
		raw, err := chat.ParseObject(r)
		if err != nil {
			return a, err
		}
		if err := json.Unmarshal(raw, &a); err != nil {
			return a, err
		}
		if a.FinalAnswer == nil {
			return a, errors.New("final_answer is missing")
		}
		return a, nil
	}
	prompt := chat.Prompt{
		Name:     "generator",
		Messages: []chat.Message{{Speaker: chat.User, Text: "What is six times seven?"}},
		Schema:   chat.SchemaOf[answer](),
	}
	a, reply, err := chat.Ask(context.Background(), &forgetful{}, prompt, parse)
	fmt.Println(*a.FinalAnswer, reply.Usage.Calls, err)
	// Output: 42 2 <nil>
}

package generator_test

import (
	"context"
	"fmt"
	"log"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/natsd"
	"debrief/generator"
)

// A program runs a Generator on an embedded server and submits a task.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	conn, closed := open(ctx)
	defer closed()
	model := chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) { // or openai.New
		return chat.Reply{Text: `{"reasoning": "It is 6 times 7.", "bullet_ids": [], "final_answer": "42"}`}, nil
	})
	done := make(chan error)
	role, err := generator.New(model, nil, generator.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { done <- role.Run(ctx, conn) }()

	task := &events.Task{Book: "sums", ID: "t1", Question: "What is six times seven?", Target: "42"}
	e, err := bus.Request[events.Execution](ctx, conn, task, bus.PublishOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Answer, e.Outcome.Label, e.Outcome.Score)

	stop()
	fmt.Println(<-done)
	// Output:
	// 42 success 1
	// <nil>
}

// open starts a temporary server and connects to it.
func open(ctx context.Context) (conn *bus.Conn, closed func()) {
	server, err := natsd.Start(natsd.Config{})
	if err != nil {
		log.Fatal(err)
	}
	nc, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	if conn, err = bus.Open(ctx, nc, bus.Options{}); err != nil {
		log.Fatal(err)
	}
	return conn, func() { nc.Close(); server.Close() }
}

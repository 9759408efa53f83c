package reflector_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/natsd"
	"debrief/reflector"
)

// A program runs a Reflector on an embedded server and publishes an execution.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	conn, closed := open(ctx)
	defer closed()
	model := chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) { // or openai.New
		return chat.Reply{Text: `{"key_insight": "Convert the prices to one currency before you add them."}`}, nil
	})
	done := make(chan error)
	role, err := reflector.New(model, reflector.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { done <- role.Run(ctx, conn) }()

	e := &events.Execution{ID: events.ExecutionID("sums", "", "t1", 0), RunID: "t1", Question: "What do they cost?", Answer: "7 EUR"}
	e.Book, e.Outcome = "sums", events.Outcome{Label: events.Failure, Feedback: "One price was in USD."}
	if _, err := conn.Publish(ctx, e, bus.PublishOptions{}); err != nil {
		log.Fatal(err)
	}
	err = conn.Events.Poll(ctx, events.StreamReflections, events.KindReflection.Subject("sums"), 0, time.Millisecond, func(s bus.Stored) error {
		fmt.Println(s.Event.(*events.Reflection).KeyInsight)
		return bus.ErrStop
	})
	stop()
	fmt.Println(err, <-done)
	// Output:
	// Convert the prices to one currency before you add them.
	// <nil> <nil>
}

// Reflect needs no server.
func ExampleReflector_Reflect() {
	model := chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) {
		return chat.Reply{Text: `{"key_insight": "Look up the id with find before you call book."}`}, nil
	})
	e := &events.Execution{ID: "e1", Outcome: events.Outcome{Label: events.Failure}, Steps: []events.Step{
		{Calls: []events.ToolCall{{Tool: "book", Arguments: `{"id": 1}`, Output: "no such id", Outcome: events.Failure}}},
	}}
	role, err := reflector.New(model, reflector.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ref, err := role.Reflect(context.Background(), e, "1-00000000")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ref.KeyInsight)
	// Output: Look up the id with find before you call book.
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

package bus_test

import (
	"context"
	"fmt"
	"log"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/natsd"
)

// Start a server in this process, submit a task, and read it from its stream.
func Example() {
	ctx := context.Background()
	server, err := natsd.Start(natsd.Config{}) // with a temporary directory
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	nc, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	conn, err := bus.Open(ctx, nc, bus.Options{}) // creates the streams
	if err != nil {
		log.Fatal(err)
	}
	task := &events.Task{Book: "library", ID: "t-1", Question: "Which shelf is highest?"}
	if _, err := conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
		log.Fatal(err)
	}
	err = conn.Events.Scan(ctx, events.StreamTasks, events.KindTask.Subject("library"), 1, func(s bus.Stored) error {
		fmt.Println(s.Seq, s.Event.(*events.Task).Question)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 1 Which shelf is highest?
}

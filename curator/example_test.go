package curator_test

import (
	"context"
	"fmt"
	"log"

	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/natsd"
	"debrief/playbook"
)

// A program runs a Curator on an embedded server and publishes a reflection. Without a model, each new lesson becomes a
// bullet.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	conn, closed := open(ctx)
	defer closed()
	done := make(chan error)
	role, err := curator.New(nil, curator.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { done <- role.Run(ctx, conn) }()

	execution := events.ExecutionID("sums", "", "t1", 0)
	r := &events.Reflection{
		Book: "sums",
		ID:   events.ReflectionID(execution, "", "my reflector"), Execution: execution, Handle: events.NewHandle(1, execution),
		Outcome: events.Outcome{Label: events.Failure}, Model: "my model",
		Lessons: []events.Lesson{{Section: "strategies_and_hard_rules", Content: "Convert the prices to one currency before you add them."}},
	}
	if _, err := conn.Publish(ctx, r, bus.PublishOptions{}); err != nil {
		log.Fatal(err)
	}
	followed, wait, err := deltalog.New(conn.JetStream()).Follow(ctx, "sums")
	if err == nil {
		err = followed.Wait(ctx, 1)
	}
	if err != nil {
		log.Fatal(err)
	}
	followed.Read(func(p *playbook.Playbook, _ []byte) { fmt.Print(playbook.RenderWithVotes(p.Sorted())) })
	stop()
	wait()
	fmt.Println(<-done)
	// Output:
	// ## Learned Strategies
	//
	// ### Strategies And Hard Rules
	// - [shr-00001] Convert the prices to one currency before you add them. (helpful=0, harmful=0)
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

package integration_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync"

	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/natsd"
	"debrief/generator"
	"debrief/playbook"
	"debrief/reflector"
)

// student answers wrongly until the rule is in its prompt. As a Reflector it finds the rule.
func student(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	const rule = "Add a handling fee of 5 to each order before you state its total."
	switch text := p.Messages[0].Text; {
	case p.Name == "reflector":
		return chat.Reply{Text: fmt.Sprintf(`{"key_insight": %q, "section": "strategies_and_hard_rules"}`, rule)}, nil
	case strings.Contains(text, rule):
		return chat.Reply{Text: `{"final_answer": "25"}`}, nil
	}
	return chat.Reply{Text: `{"final_answer": "20"}`}, nil
}

// One program runs the three roles on an embedded server. The Generator gives a wrong answer, and the playbook learns.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	conn, closed := open(ctx)
	defer closed()
	model := chat.ModelFunc(student) // or openai.New
	var running sync.WaitGroup
	generates, err := generator.New(model, nil, generator.Config{})
	check(err)
	reflects, err := reflector.New(model, reflector.Config{})
	check(err)
	curates, err := curator.New(nil, curator.Config{})
	check(err)
	running.Go(func() { check(generates.Run(ctx, conn)) })
	running.Go(func() { check(reflects.Run(ctx, conn)) })
	running.Go(func() { check(curates.Run(ctx, conn)) })

	learned, wait, err := deltalog.New(conn.JetStream()).Follow(ctx, "orders")
	check(err)
	for version := range uint64(2) { // wait for the version, then ask
		check(learned.Wait(ctx, version))
		task := &events.Task{Book: "orders", ID: fmt.Sprint("order ", version), Question: "What is the total of four items at 5?", Target: "25", MinVersion: version}
		e, err := bus.Request[events.Execution](ctx, conn, task, bus.PublishOptions{})
		check(err)
		fmt.Println(e.Answer, e.Outcome.Label)
	}
	learned.Read(func(p *playbook.Playbook, _ []byte) { fmt.Print(playbook.Render(p.Sorted())) })
	stop()
	wait()
	running.Wait()
	// Output:
	// 20 failure
	// 25 success
	// ## Learned Strategies
	//
	// ### Strategies And Hard Rules
	// - [shr-00001] Add a handling fee of 5 to each order before you state its total.
}

// open starts a temporary server and connects to it.
func open(ctx context.Context) (conn *bus.Conn, closed func()) {
	server, err := natsd.Start(natsd.Config{})
	check(err)
	nc, err := server.Connect()
	check(err)
	conn, err = bus.Open(ctx, nc, bus.Options{})
	check(err)
	return conn, func() { nc.Close(); server.Close() }
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

package events_test

import (
	"errors"
	"fmt"

	"debrief/events"
)

func Example() {
	task := &events.Task{Book: "library", ID: "t-1", Question: "Which shelf is highest?"}

	subject, header, payload, err := events.Encode(task)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(subject, header)

	e, err := events.Decode(subject, header, payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Kind(), e.InBook(), e.(*events.Task).Question)
	// Output:
	// debrief.task.library map[Debrief-Schema:[1]]
	// task library Which shelf is highest?
}

func ExampleDecode_newer() {
	_, err := events.Decode("debrief.task.library", map[string][]string{events.HeaderSchema: {"2"}}, nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, events.ErrNewerSchema))
	// Output:
	// decode task: header Debrief-Schema: version 2: newer schema than this program knows
	// true
}

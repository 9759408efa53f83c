package conversation_test

import (
	"fmt"

	"debrief/events"
	"debrief/generator/prompt/conversation"
)

func ExampleRank() {
	book := func(card string) events.Step {
		return events.Step{Calls: []events.ToolCall{{
			Tool: "book_seat", Arguments: `{"flight":"HAT139","card":"` + card + `"}`,
			Output: "Error: not enough seats on flight HAT139", Outcome: events.Failure,
		}}}
	}
	steps := []events.Step{
		{Calls: []events.ToolCall{{Tool: "search_flights", Arguments: `{"from":"ORD","to":"PHL"}`, Output: `[{"flight":"HAT139","price":112}]`}}},
		book("visa_1"), book("visa_2"), book("gift_3"),
	}

	kept, left := conversation.Rank(conversation.Lines(steps, "Book me a seat to Philadelphia"), 100)
	for _, line := range kept {
		fmt.Println(line.Text)
	}
	fmt.Println("left out:", left)

	if recovery, stuck := conversation.Stuck(steps); stuck {
		fmt.Println("stuck:", recovery.Reason)
	}
	// Output:
	// called `book_seat` HAT139, visa_1 → failed: not enough seats on flight HAT139
	// called `book_seat` HAT139, visa_2 → failed: not enough seats on flight HAT139
	// called `book_seat` HAT139, gift_3 → failed: not enough seats on flight HAT139
	// left out: 1
	// stuck: 3 steps in a row without progress
}

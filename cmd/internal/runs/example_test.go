package runs_test

import (
	"context"
	"fmt"
	"strings"

	"debrief/cmd/internal/runs"
	"debrief/events"
)

func ExampleRead() {
	const results = `[
		{"task_id": 4, "trial": 0, "reward": 0.0, "traj": [
			{"role": "user", "content": "Book the early flight."},
			{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "book", "arguments": "{\"flight\":\"HAT030\"}"}}]},
			{"role": "tool", "tool_call_id": "1", "content": "Error: flight HAT030 not available"}]},
		{"task_id": 5, "trial": 0, "reward": 0.0, "info": {"error": "rate limit"}, "traj": []}]`

	report, err := runs.Read(context.Background(), "airline", "results.json", strings.NewReader(results), func(e *events.Execution) error {
		call := e.Steps[0].Calls[0]
		fmt.Println(e.RunID, e.Outcome.Label)
		fmt.Println(call.Tool, call.Outcome, call.Output)
		return nil
	})
	fmt.Println(report.Runs, report.Problems, err)
	// Output:
	// tau-bench/4/0/8b279fedf5fa2933df76e34cde29cd85 failure
	// book failure Error: flight HAT030 not available
	// 1 [element 1: field traj: is empty, the recorded run stopped with "rate limit"] <nil>
}

package api

import (
	"fmt"
	"testing"

	"debrief/events"
)

// TestKnownErrors reports runs of agents that repeat an error in two tasks, and reads the report: by playbook, with the scope read only, and
// without erased runs.
func TestKnownErrors(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	report := func(book, task string, n int) {
		t.Helper()
		call := `{"tool":"search","arguments":"{\"limit\": 500}","output":"Error: the limit must be at most 100","outcome":"failure"}`
		w.send(t, 201, "POST", "/executions", fmt.Sprintf(
			`{"book":%q,"run_id":"%s-%d","task":%q,"question":"%s %d?","answer":"none","steps":[{"tool_calls":[%s]},{"tool_calls":[%s]}]}`, book, task, n, task, task, n, call, call))
	}
	for n := range 2 {
		report("default", "one", n)
		report("default", "two", n)
	}
	report("support", "one", 0)
	eventually(t, func() error {
		reply, _ := w.send(t, 200, "GET", "/books/default/errors", "")
		known, _ := reply["known_errors"].([]any)
		if len(known) != 1 || reply["behind"] != 0.0 {
			return fmt.Errorf("got %v", reply)
		}
		e := known[0].(map[string]any)
		if got := fmt.Sprint(e["tool"], " ", e["runs"], " ", e["tasks"], " ", e["repeated"], " ", e["unchanged"]); got != "search 4 2 4 4" || e["error"] == "" {
			return fmt.Errorf("got %v", e)
		}
		return nil
	})
	if reply, _ := w.send(t, 200, "GET", "/books/support/errors", ""); len(reply["known_errors"].([]any)) != 0 {
		t.Errorf("a playbook with one task: got %v", reply)
	}
	stream, err := w.conn.JetStream().Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{2, 3, 4} { // the runs of the playbook, except the first one
		if err := stream.SecureDeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		reply, _ := w.send(t, 200, "GET", "/books/default/errors", "")
		if known, _ := reply["known_errors"].([]any); len(known) > 0 {
			return fmt.Errorf("got the errors of erased runs: %v", reply)
		}
		return nil
	})
}

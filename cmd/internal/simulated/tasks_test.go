package simulated

import (
	"slices"
	"strings"
	"testing"

	"debrief/events/chat"
)

func TestLargerDrawsExtendSmallerOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	train, heldOut := Tasks(3)
	more, judged := GenerateTasks(3, 5000, 700)
	if len(more) != 5000 || len(judged) != 700 {
		t.Fatalf("got %d and %d tasks, want 5000 and 700", len(more), len(judged))
	}
	for i := range train {
		if more[i].Question != train[i].Question || judged[i].Question != heldOut[i].Question {
			t.Fatalf("task %d differs in a larger draw", i)
		}
	}
	some, _ := GenerateTasks(3, 300, 0)
	_, few := GenerateTasks(3, 10, 600)
	if some[299].Question != more[299].Question || few[599].Question != judged[599].Question {
		t.Error("tasks of one kind depend on the number of the other kind")
	}
	seen := map[string]bool{}
	for _, task := range slices.Concat(more, judged) {
		_, invoice, _ := strings.Cut(task.Question, "\n")
		if seen[invoice] {
			t.Fatalf("%s occurs twice", task.ID)
		}
		seen[invoice] = true
	}
}

func TestReducerDropsDuplicates(t *testing.T) {
	t.Parallel()
	said := `# Proposals, one JSON object a line

{"proposal":1,"type":"ADD","content":"For delivery express the delivery surcharge is 5.20.","insights":[1]}
{"proposal":2,"type":"ADD","content":"For delivery courier the delivery surcharge is 2.05.","insights":[2]}
{"proposal":3,"type":"ADD","content":"For delivery express the delivery surcharge is 7.00.","insights":[3,4]}
{"proposal":4,"type":"ADD","content":"The delivery surcharge is 5.20 where the invoice says delivery express.","insights":[1,5,6]}
{"proposal":5,"type":"REMOVE","bullet_id":"misc-00001","insights":[7]}
{"proposal":6,"type":"ADD","content":"Look twice.","insights":[8]}
{"proposal":7,"type":"ADD","content":"look twice","insights":[9]}
`
	reply := newClient(Options{}).must(t, chat.Prompt{Name: "reducer", Messages: []chat.Message{{Speaker: chat.User, Text: said}}})
	for _, want := range []string{`"keep":4,"drop":[3,1]`, `"keep":6,"drop":[7]`} {
		if !strings.Contains(reply, want) {
			t.Errorf("got %s, want %s in it", reply, want)
		}
	}
	if strings.Count(reply, `"keep"`) != 2 {
		t.Errorf("got %s, want two decisions", reply)
	}
}

package reflector

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/window"
)

func TestTaskKey(t *testing.T) {
	t.Parallel()
	task := func(change func(*events.Execution)) events.ID {
		e := &events.Execution{Book: "b", RunID: "epoch-1/q", Question: "How far?", Context: "a map", Turn: 1}
		change(e)
		return taskKey(e)
	}
	same := task(func(*events.Execution) {})
	if got := task(func(e *events.Execution) { e.RunID, e.Session = "epoch-2/q", "s" }); got != same || same == "" {
		t.Errorf("another epoch: got %q, want %q", got, same)
	}
	for name, change := range map[string]func(*events.Execution){
		"another question": func(e *events.Execution) { e.Question = "How near?" },
		"another context":  func(e *events.Execution) { e.Context = "a chart" },
		"another book":     func(e *events.Execution) { e.Book = "c" },
		"a recorded task":  func(e *events.Execution) { e.Origin.Task = "tau-bench/x/1" },
	} {
		if got := task(change); got == same || got == "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := task(func(e *events.Execution) { e.Turn = 2 }); got != "" {
		t.Errorf("a later turn: got %q, want none", got)
	}
	reworded := func(e *events.Execution) { e.Origin.Task, e.Question = "tau-bench/x/1", fmt.Sprint(len(e.Question)) }
	if a, b := task(reworded), task(func(e *events.Execution) { e.Question = "?"; reworded(e) }); a != b {
		t.Errorf("one recorded task in other words: got %q and %q", a, b)
	}
}

// taskRun returns a run of a task that calls these tools.
func taskRun(task string, label events.Label, tools ...string) *events.Execution {
	e := failingRun(task, events.Learn)
	e.Question, e.Steps = "the same question", nil
	e.Outcome.Label = label
	for _, tool := range tools {
		e.Steps = append(e.Steps, events.Step{Speaker: "assistant", Calls: []events.ToolCall{{Tool: tool, Arguments: `{"id":1}`, Output: "x", Outcome: events.Success}}})
	}
	return e
}

// promptModel is a model that keeps the last prompt.
type promptModel struct{ last chat.Prompt }

func (m *promptModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	m.last = p
	return chat.Reply{Text: `{"key_insight": "Look at the map before you leave the house."}`}, nil
}

// The test calls handle as deliveries do: each run is handled before the next.
func TestReflectorQuotesTheOtherRunOfATask(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	model := new(promptModel)
	r := bustest.Must(New(model, Config{}))
	places := map[string]uint64{} // one stored copy of each
	last := uint64(0)
	handles := map[string]events.Handle{} // by run
	want := func(name string, e *events.Execution, calls, other string) {
		t.Helper()
		if last++; places[e.RunID] == 0 {
			places[e.RunID] = last
		}
		d := &bus.Delivery{Event: e, Seq: places[e.RunID]}
		handles[e.RunID] = d.Handle()
		got := newWorker(r, conn).handle(t.Context(), d)
		if got.Err != nil || len(got.Events) != 1 {
			t.Fatalf("%s: got %+v, want a reflection", name, got)
		}
		if err := got.AfterStore(t.Context(), bus.Receipt{}); err != nil {
			t.Fatal(err)
		}
		if quoted := quotesOf(t, model.last)[quoteOther]; quoted != calls {
			t.Errorf("%s: got %q, want %q", name, quoted, calls)
		}
		var named events.Handle
		if o := got.Events[0].(*events.Reflection).OtherRun; o != nil && strings.HasPrefix(calls, "outcome: "+string(o.Label)) {
			named = o.Execution
		}
		if named != handles[other] {
			t.Errorf("%s: the reflection names the run %q, want %q", name, named, handles[other])
		}
	}
	failed := taskRun("1", events.Failure, "get", "book")
	want("the first", failed, "", "")
	want("the same one delivered again", failed, "", "")
	want("another failure", taskRun("2", events.Failure, "get", "cancel"), "", "")
	places["1"] = 0
	want("the first one, stored once more, which is not the last failure", failed, "", "")
	want("a success, with the last failure", taskRun("3", events.Success, "get", "check", "book"), "outcome: failure\nget({\"id\":1})\ncancel({\"id\":1})", "2")
	want("a failure, with the success", taskRun("4", events.Failure, "get", "book"), "outcome: success\nget({\"id\":1})\ncheck({\"id\":1})\nbook({\"id\":1})", "3")
	unknown := taskRun("5", events.Unknown, "get", "book")
	unknown.Steps = append(unknown.Steps, failingRun("x", events.Learn).Steps...)
	want("an unknown outcome", unknown, "", "")
	other := taskRun("6", events.Failure, "get", "book")
	other.Question = "another question"
	want("another task", other, "", "")

	// A run with a corrected outcome is not compared with itself, and is no longer stored under its old outcome.
	corrected := taskRun("4", events.Success, "get", "book")
	want("the failure corrected to a success", corrected, "", "")
	want("a success, with no failure known", taskRun("7", events.Success, "sing", "dance"), "", "")
}

// TestRunWithoutALessonIsRemembered handles a success that teaches nothing, and then a failure of its task without any call.
func TestRunWithoutALessonIsRemembered(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	var last chat.Prompt
	r := bustest.Must(New(chat.ModelFunc(func(_ context.Context, p chat.Prompt) (chat.Reply, error) {
		last = p
		return chat.Reply{Text: `{"reasoning": "r", "key_insight": ""}`}, nil
	}), Config{}))
	handle := func(e *events.Execution, seq uint64) {
		t.Helper()
		e.Manifest = nil
		got := newWorker(r, conn).handle(t.Context(), &bus.Delivery{Event: e, Seq: seq})
		if got.Err != nil || len(got.Events) != 1 || hasContent(got.Events[0].(*events.Reflection)) {
			t.Fatalf("got %+v, want a reflection without content", got)
		}
		if err := got.AfterStore(t.Context(), bus.Receipt{}); err != nil {
			t.Fatal(err)
		}
	}
	handle(taskRun("1", events.Success, "get", "book"), 1)
	failed := taskRun("2", events.Failure)
	failed.Steps = []events.Step{{Speaker: "assistant", Text: "I cannot do that."}}
	handle(failed, 2)
	if got, want := quotesOf(t, last)[quoteOther], "outcome: success\nget({\"id\":1})\nbook({\"id\":1})"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	other := taskRun("3", events.Failure, "get")
	other.Owner = string(events.Hash("another owner"))
	handle(other, 3)
	if got := quotesOf(t, last)[quoteOther]; got != "" {
		t.Errorf("the run of another owner has %q", got)
	}
}

// TestAnswersOfOneTaskAreCompared checks that a run without calls is compared with the better or worse answer to its task, also if all
// outcomes are partial.
func TestAnswersOfOneTaskAreCompared(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	model := new(promptModel)
	r := bustest.Must(New(model, Config{}))
	seq := uint64(0)
	want := func(name string, e *events.Execution, other, remark string) {
		t.Helper()
		seq++
		got := newWorker(r, conn).handle(t.Context(), &bus.Delivery{Event: e, Seq: seq})
		if got.Err != nil || len(got.Events) != 1 {
			t.Fatalf("%s: got %+v, want a reflection", name, got)
		}
		if err := got.AfterStore(t.Context(), bus.Receipt{}); err != nil {
			t.Fatal(err)
		}
		quotes := quotesOf(t, model.last)
		if quotes[quoteOtherTry] != other || quotes[quoteOtherNote] != remark {
			t.Errorf("%s: got %q with the feedback %q, want %q with %q", name, quotes[quoteOtherTry], quotes[quoteOtherNote], other, remark)
		}
		if hasRun := got.Events[0].(*events.Reflection).OtherRun != nil; hasRun != (other != "") {
			t.Errorf("%s: got another run in the reflection: %t", name, hasRun)
		}
	}
	answer := func(run string, score float64) *events.Execution {
		return &events.Execution{
			Book: "b", ID: events.ExecutionID("b", "", run, 0), RunID: run, Question: "What is due?", Reasoning: "sum " + run, Answer: run,
			Outcome: events.Outcome{Label: events.LabelOf(score), Score: score, Feedback: "remark on " + run},
		}
	}
	quoted := func(outcome, run string) string {
		return "outcome: " + outcome + "\nreasoning: sum " + run + "\nanswer: " + run
	}
	want("the first", answer("a", 0.5), "", "")
	want("nearly the same score", answer("b", 0.55), "", "")
	want("a better one, with the worse one", answer("c", 0.8), quoted("partial (score 0.55 of 1)", "b"), "remark on b")
	want("a worse one, with the better one", answer("d", 0.2), quoted("partial (score 0.80 of 1)", "c"), "remark on c")
	want("a right one, with the worst one", answer("e", 1), quoted("partial (score 0.20 of 1)", "d"), "remark on d")
	want("a wrong one, with the right one", answer("f", 0), quoted("success", "e"), "remark on e")
	want("a partial one, with the right one", answer("g", 0.8), quoted("success", "e"), "remark on e")
	other := answer("h", 0)
	other.Question = "What else is due?"
	want("another task", other, "", "")
}

// TestHeldExecutionsAreComparedBetweenEpochs checks that a held execution is compared with its own sample in an earlier epoch, and with no other
// execution of the same question, which may be reflected on before or after it.
func TestHeldExecutionsAreComparedBetweenEpochs(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	model := new(promptModel)
	r := bustest.Must(New(model, Config{}))
	for i, test := range []struct {
		run          string
		epoch, index int
		score        float64
		want         string
	}{
		{"train", 1, 1, 0, ""},
		{"train", 1, 2, 1, ""},
		{"train", 2, 1, 1, "e1 s1"},
		{"train", 2, 2, 1, ""},
		{"again", 1, 1, 0, ""},
		{"train", 3, 1, 0, "e2 s1"},
	} {
		name := fmt.Sprintf("e%d s%d", test.epoch, test.index)
		e := &events.Execution{
			Book: "b", ID: events.Hash(test.run, name), RunID: test.run + name, Question: "What is due?", Answer: name,
			Outcome: events.Outcome{Label: events.LabelOf(test.score), Score: test.score},
			Origin:  events.Origin{Run: test.run, Epoch: test.epoch, Index: test.index, Held: true},
		}
		got := newWorker(r, conn).handle(t.Context(), &bus.Delivery{Event: e, Seq: uint64(i + 1)})
		if got.Err != nil || len(got.Events) != 1 {
			t.Fatalf("%s: got %+v, want a reflection", name, got)
		}
		if err := got.AfterStore(t.Context(), bus.Receipt{}); err != nil {
			t.Fatal(err)
		}
		if quoted := quotesOf(t, model.last)[quoteOtherTry]; test.want == "" && quoted != "" || !strings.HasSuffix(quoted, test.want) {
			t.Errorf("%s of %s: got %q, want the answer %q", name, test.run, quoted, test.want)
		}
	}
}

// TestOtherRunKeepsBothEnds shortens the calls of a long run.
func TestOtherRunKeepsBothEnds(t *testing.T) {
	t.Parallel()
	o := &otherRun{try: events.Try{Outcome: events.Outcome{Label: events.Success}}}
	for i := range window.MaxRunCalls {
		o.calls = append(o.calls, fmt.Sprintf(`look({"page":%d})`, i))
	}
	got := o.quotedCalls(200)
	if n := chat.Tokens(got); n > 220 {
		t.Errorf("got %d tokens, want about 200", n)
	}
	for _, want := range []string{"outcome: success\nlook({\"page\":0})\nlook({\"page\":1})\n", " calls left out]\n", `look({"page":199})`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

package events

import (
	"math"
	"strings"
	"testing"
)

func TestValidateNamesTheField(t *testing.T) {
	t.Parallel()
	type change = func(Event)
	for _, test := range []struct {
		name   string
		kind   Kind
		change change
		want   string
	}{
		{"no id", KindTask, func(e Event) { e.(*Task).ID = "" }, "id: must be 1 to 256 bytes"},
		{"a long id", KindTask, func(e Event) { e.(*Task).ID = strings.Repeat("x", 257) }, "run_id: must have at most 256 bytes"},
		{"a blank question", KindTask, func(e Event) { e.(*Task).Question = " \n" }, "question: "},
		{"an unknown purpose", KindTask, func(e Event) { e.(*Task).Purpose = "fun" }, "purpose: "},
		{"an evaluator without a target", KindTask, func(e Event) { e.(*Task).Target = "" }, "target: "},
		{"an id that is none", KindExecution, func(e Event) { e.(*Execution).ID = "x" }, "id: "},
		{"no task", KindExecution, func(e Event) { e.(*Execution).RunID = "" }, "run_id: "},
		{"an unknown label", KindExecution, func(e Event) { e.(*Execution).Outcome.Label = "great" }, "outcome.label: "},
		{"a score over 1", KindExecution, func(e Event) { e.(*Execution).Outcome.Score = 1.1 }, "outcome.score: "},
		{"a negative score", KindExecution, func(e Event) { e.(*Execution).Outcome.Score = -0.1 }, "outcome.score: "},
		{"a score that is no number", KindExecution, func(e Event) { e.(*Execution).Outcome.Score = math.NaN() }, "outcome.score: "},
		{"rounds without end", KindTask, func(e Event) { e.(*Task).PreviousRounds = make([]PreviousRound, MaxPreviousRounds+1) }, "previous_rounds: "},
		{"more rounds than there are", KindTask, func(e Event) { e.(*Task).Rounds = 4 }, "rounds: "},
		{"fewer rounds than none", KindTask, func(e Event) { e.(*Task).Rounds = -1 }, "rounds: "},
		{"a round's score over 1", KindTask, func(e Event) { e.(*Task).PreviousRounds = []PreviousRound{{}, {Score: 2}} }, "previous_rounds[1].score: "},
		{"an unknown vote in a round", KindExecution, func(e Event) {
			e.(*Execution).PreviousRounds = []PreviousRound{{Tags: []BulletTag{{ID: "a", Tag: "meh"}}}}
		}, "previous_rounds[0].bullet_tags[0]: "},
		{"feedback on nothing", KindFeedback, func(e Event) { e.(*Feedback).Execution = "" }, `handle ""`},
		{"feedback without an id", KindFeedback, func(e Event) { e.(*Feedback).ID = "" }, "id: "},
		{"a reflection on nothing", KindReflection, func(e Event) { e.(*Reflection).Handle = "x" }, `handle "x"`},
		{"an unknown vote", KindReflection, func(e Event) { e.(*Reflection).Tags[0].Tag = "meh" }, "bullet_tags[0]: "},
		{"a vote for nothing", KindReflection, func(e Event) { e.(*Reflection).Tags[0].ID = "" }, "bullet_tags[0]: "},
		{"an edit without an author", KindEdit, func(e Event) { e.(*Edit).Author = "" }, "author: "},
		{"an edit in the name of the Curator", KindEdit, func(e Event) { e.(*Edit).Author = "Curator" }, "author: "},
		{"an edit of nothing", KindEdit, func(e Event) { *e.(*Edit) = Edit{ID: NewID(), Author: "a"} }, "operations, names, "},
		{"too much gathered", KindEdit, func(e Event) { e.(*Edit).Gather = make([]Handle, MaxGather+1) }, "gather: "},
		{"a gathered thing without a place", KindEdit, func(e Event) { e.(*Edit).Gather = []Handle{"1-ab12cd34", "x"} }, `gather[1]: handle "x"`},
		{"a dead letter with an invalid role", KindDead, func(e Event) { e.(*DeadLetter).Role = "a.b" }, `role: "a.b"`},
		{"a dead letter without a code", KindDead, func(e Event) { e.(*DeadLetter).Code = "" }, `code: ""`},
		{"a dead letter without a role", KindDead, func(e Event) { e.(*DeadLetter).Role = "" }, "role, subject: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := samples()[test.kind]
			test.change(e)
			if err := e.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	judged := samples()[KindTask].(*Task)
	if judged.Evaluator, judged.Target = ProgramEvaluator+"judge", ""; judged.Validate() != nil {
		t.Errorf("a program evaluator without a target: got %v", judged.Validate())
	}
}

func TestEventIDs(t *testing.T) {
	t.Parallel()
	seen := map[ID]string{}
	task := func(round int, owner string) ID {
		t := &Task{Book: "main", ID: "t", Owner: owner, Origin: Origin{Round: round, Task: "a label"}}
		return t.EventID()
	}
	for what, id := range map[string]ID{
		"the task": task(0, ""), "its second round": task(1, ""), "its third": task(2, ""), "that of an owner": task(0, "o"), "its second": task(1, "o"),
		"round 0": ExecutionID("main", "", "t", 0), "round 1": ExecutionID("main", "", "t", 1), "another book": ExecutionID("other", "", "t", 0),
		"an owner": ExecutionID("main", "o", "t", 0), "another owner": ExecutionID("main", "p", "t", 0),
		"of the execution": ReflectionID("e", "", "v1"), "of feedback": ReflectionID("e", "f", "v1"), "by another version": ReflectionID("e", "", "v2"),
	} {
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s are one", what, other)
		}
		seen[id] = what
	}
}

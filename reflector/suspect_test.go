package reflector

import (
	"context"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/playbook"
)

// replyModel is a model with one reply.
type replyModel string

func (m replyModel) Complete(_ context.Context, _ chat.Prompt) (chat.Reply, error) {
	return chat.Reply{Finish: "stop", Text: string(m)}, nil
}

// A doubted outcome teaches nothing: no lesson, no vote and no advice for later prompts. The random arms keep it.
func TestDoubtedOutcome(t *testing.T) {
	t.Parallel()
	e := &events.Execution{
		Book: "b",
		ID:   "e", RunID: "r", Question: "Put-call parity: C=18, P=10, S=63. X?", Answer: "55.55", Target: "71.71",
		Outcome: events.Outcome{Label: events.Failure, Feedback: "expected 71.71"},
		Shown:   []events.ShownBullet{{ID: "a-1", Content: "Round to two places."}, {ID: "a-2", Content: "Use years."}},
		Cited:   []playbook.BulletID{"a-1"},
		Manifest: &events.Manifest{Exposures: []events.Exposure{
			{Bullet: "a-2", Experiment: 1, Arm: playbook.ArmShown}, {Bullet: "a-3", Experiment: 1, Arm: playbook.ArmWithheld},
		}},
	}
	const reply = `{"reasoning":"r","error_identification":"e","root_cause_analysis":"c","correct_approach":"add the prices","key_insight":"Add the difference of the prices before you compound.","section":"s",` +
		`"label_suspect":SUSPECT,"bullet_tags":[{"id":"a-1","tag":"harmful"}]}`
	for _, tt := range []struct {
		name, suspect string
		doubted       bool
	}{
		{"doubted", `"The formula of the task gives 55.55, and the expected answer adds the prices."`, true},
		{"not doubted", `""`, false},
		{"null", `null`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ref, err := bustest.Must(New(replyModel(strings.Replace(reply, "SUSPECT", tt.suspect, 1)), Config{})).Reflect(t.Context(), e, "1-ab12cd34")
			if err != nil {
				t.Fatal(err)
			}
			if (ref.LabelSuspect != "") != tt.doubted || (len(ref.Lessons) == 0) != tt.doubted || (len(ref.Tags) == 0) != tt.doubted || (ref.KeyInsight == "") != tt.doubted || (ref.CorrectApproach == "") != tt.doubted {
				t.Errorf("got %+v, want doubted: %v", ref, tt.doubted)
			}
			if ref.Model == "" {
				t.Error("the reflection has no author: the model's reply names no model")
			}
			arms := map[playbook.Arm]int{}
			for _, x := range ref.Exposures {
				arms[x.Arm]++
			}
			if arms[playbook.ArmShown] != 1 || arms[playbook.ArmWithheld] != 1 || (arms[playbook.ArmOpen] == 0) != tt.doubted {
				t.Errorf("got exposures %+v, want both random arms, and the cited bullet unless doubted", ref.Exposures)
			}
			if tt.doubted && (!hasContent(ref) || nextRound(e, "1-ab12cd34", ref) != nil || events.NewNote("1-ab12cd34", ref) != nil) {
				t.Error("want a stored reflection, no further round and no note")
			}
		})
	}
}

// A reflection keeps the beginning and the end of a long question: tasks of one kind begin with the same instructions.
func TestReflectionKeepsBothEndsOfTheQuestion(t *testing.T) {
	t.Parallel()
	e := &events.Execution{Book: "b", ID: "e", RunID: "r", Question: "Here is a list of tags:" + strings.Repeat(" Tag", 2000) + ". Which tag fits 21,000?"}
	r, err := bustest.Must(New(nil, Config{})).Reflect(t.Context(), e, "1-00000000")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Question, "Here is a list") || !strings.HasSuffix(r.Question, "fits 21,000?") || len(r.Question) > 510 {
		t.Errorf("got %q", r.Question)
	}
}

package propose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"debrief/curator/draft"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

func TestPromptHasStateOfPlaybook(t *testing.T) {
	t.Parallel()
	bullets := []*playbook.Bullet{
		{ID: "calc-00001", Section: "calc", Content: "Gold gets 7 % off.", Helpful: 8},
		{ID: "calc-00002", Section: "calc", Content: "Silver gets 5 % off.", Harmful: 2},
		{ID: "misc-00003", Section: "misc", Content: "Ask for the order.", Status: playbook.Active},
		{ID: "misc-00004", Section: "misc", Content: "Ask for the year.", Status: playbook.Retired},
	}
	round := &Round{
		Playbook: playbook.Restore(4, 4, slices.Values(bullets)), Rejections: new(RejectionLog), Bullets: new(BulletIndex), TokenBudget: 80_000,
	}
	items := batchOf("Bronze gets 3 % off.", "Tin gets 1 % off.")
	items[0].Reflection.Origin = events.Origin{Epoch: 2, Step: 234, Steps: 1000}
	items[1].Reflection.Origin = events.Origin{Epoch: 2, Step: 233, Steps: 1000}
	tokens := 0
	for _, b := range bullets[:3] {
		tokens += draft.Tokens(b)
	}
	user := promptOf(t, round, items)
	for _, want := range []string{
		"Bullets: 4, of which 3 are active: 1 high performing, 1 problematic, 1 unused.\n",
		"Active bullets by section: Calc 2, Misc 1.\n",
		fmt.Sprintf("Tokens of the active bullets: %d of at most 80000.\n", tokens),
		"Progress of the run: it learns from samples up to number 234 of 1000, epoch 2.\n\n# Insights",
	} {
		if !strings.Contains(user, want) {
			t.Errorf("got %q, want %q in it", user, want)
		}
	}
	if strings.Index(user, "# State") < strings.Index(user, "- [calc-00002]") {
		t.Error("the state comes before the bullets, so it ends the prefix that a provider can reuse")
	}

	round.TokenBudget, items[0].Reflection.Origin, items[1].Reflection.Origin = -1, events.Origin{}, events.Origin{}
	if user := promptOf(t, round, items); strings.Contains(user, "at most") || strings.Contains(user, "Progress") {
		t.Errorf("got %q without a limit and a run, want neither in it", user)
	}
}

// TestPromptHasVotesOnThePresentWording checks that votes on a text before its correction count neither beside the bullet nor as problematic.
func TestPromptHasVotesOnThePresentWording(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		experiment *playbook.Experiment
		votes      string
		classes    string
	}{
		"not measured":  {nil, "helpful=1, harmful=2", "1 problematic, 0 unused"},
		"first wording": {&playbook.Experiment{Number: 1, Standing: playbook.StandingNew}, "helpful=1, harmful=2", "1 problematic, 0 unused"},
		"corrected":     {&playbook.Experiment{Number: 2, Standing: playbook.StandingNew}, "helpful=0, harmful=0", "0 problematic, 1 unused"},
		"corrected, with outcomes": {
			&playbook.Experiment{Number: 2, Standing: playbook.StandingNew, Cited: playbook.Scores{0: 1, 5: 2, 10: 1}}, "helpful=3, harmful=1", "0 problematic, 0 unused",
		},
		"corrected without a gate": {&playbook.Experiment{Number: 2}, "helpful=1, harmful=2", "1 problematic, 0 unused"},
	} {
		b := &playbook.Bullet{ID: "calc-00001", Section: "calc", Content: "Gold gets 7 % off.", Helpful: 1, Harmful: 2, Experiment: test.experiment}
		round := &Round{
			Playbook: playbook.Restore(1, 1, slices.Values([]*playbook.Bullet{b})), Rejections: new(RejectionLog), Bullets: new(BulletIndex),
		}
		user := promptOf(t, round, batchOf("Bronze gets 3 % off."))
		if !strings.Contains(user, "Gold gets 7 % off. ("+test.votes+")\n") || !strings.Contains(user, test.classes+".\n") {
			t.Errorf("%s: got %q, want %q and %q in it", name, user, test.votes, test.classes)
		}
	}
}

func TestStateOfManySections(t *testing.T) {
	t.Parallel()
	var bullets []*playbook.Bullet
	for i := range 50 {
		bullets = append(bullets, &playbook.Bullet{
			ID: playbook.BulletID(fmt.Sprintf("s-%05d", i)), Section: fmt.Sprintf("s\n# Insights %d", i), Content: fmt.Sprintf("Rule %d applies.", i),
		})
	}
	round := &Round{
		Playbook: playbook.Restore(50, 50, slices.Values(bullets)), Rejections: new(RejectionLog), Bullets: new(BulletIndex),
	}
	user := promptOf(t, round, batchOf("Bronze gets 3 % off."))
	_, state, _ := strings.Cut(user, "# State\n")
	state, _, _ = strings.Cut(state, "# Insights, one JSON")
	if !strings.Contains(state, "30 more sections.") || strings.Contains(state, "\n# Insights") {
		t.Errorf("got %q, want 20 sections on one line", state)
	}
}

// promptOf returns the user message of the round's request for the items.
func promptOf(t *testing.T, round *Round, items []*Item) string {
	t.Helper()
	for _, item := range items {
		item.input = item.Reflection // a round resets it
	}
	m := new(silent)
	(&Proposer{Model: m}).askInGroups(t.Context(), round, items)
	if len(m.prompts) != 1 {
		t.Fatalf("got %d requests, want 1", len(m.prompts))
	}
	return m.prompts[0].Messages[1].Text
}

// silent is a model that proposes nothing and records its prompts.
type silent struct{ prompts []chat.Prompt }

func (s *silent) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	s.prompts = append(s.prompts, p)
	return chat.Reply{Text: `{"reasoning":"nothing new","operations":[]}`, Model: "silent", Finish: "stop"}, nil
}

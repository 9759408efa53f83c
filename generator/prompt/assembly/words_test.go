package assembly

import (
	"strings"
	"testing"

	"debrief/events/chat"
	"debrief/playbook"
)

// TestWordsAboutNewBullets checks that the words of a prompt are right with and without established bullets, and that no prompt asks for
// a bullet to be followed where its condition does not hold.
func TestWordsAboutNewBullets(t *testing.T) {
	t.Parallel()
	isNew := &playbook.Bullet{
		ID: "af-00001", Section: "answer_format", When: "a rate is asked", Content: "When a rate is asked: give a decimal.",
		Experiment: &playbook.Experiment{Standing: playbook.StandingNew},
	}
	old := &playbook.Bullet{ID: "cf-00002", Section: "cash_flow", Content: "Add depreciation."}
	const line = "- [af-00001] When a rate is asked: give a decimal.\n"
	const words = "## New Advice\n\nFrom few results yet. What the task itself states goes first, unless a bullet says that results showed something else.\n"
	for name, test := range map[string]struct {
		bullets []*playbook.Bullet
		want    string
	}{
		"empty":    {nil, "The playbook is still empty.\n"},
		"only new": {[]*playbook.Bullet{isNew}, words + line},
		"mixed":    {[]*playbook.Bullet{isNew, old}, "## Learned Strategies\n\n### Cash Flow\n- [cf-00002] Add depreciation.\n\n" + words + line},
	} {
		if got := systemText("I", test.bullets, false); got != "I\n\n"+test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, prompt := range []string{chat.PromptTask, chat.PromptAgent, chat.PromptAdvice} {
		if strings.Contains(prompt, "to the letter") || !strings.Contains(prompt, "condition") {
			t.Errorf("%q", prompt)
		}
	}
}

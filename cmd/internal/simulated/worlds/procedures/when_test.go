package procedures

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
)

// TestConditionIsRead checks that a line with a condition states the rule, also if the text leaves out the kind of job.
func TestConditionIsRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		w := New(seed, worlds.Imperfection{})
		for i, r := range w.rules {
			for draw := range uint64(4) {
				for _, text := range []string{r.Text(draw << 8), forgotten{r}.Text(draw << 8)} {
					if line := fmt.Sprintf("When %s: %s", r.When(), text); !w.States(line, 0, i) {
						t.Errorf("%q does not state %+v", line, r)
					}
				}
			}
			if forgets := (forgotten{r}).Text(0); w.States(forgets, 0, i) || strings.Contains(forgets, r.family) {
				t.Errorf("%q states %+v", forgets, r)
			}
		}
	}
}

// TestForgetfulModelIsAsked checks that a forgetful model names the kind of job only in the condition, and only if the prompt asks for one.
func TestForgetfulModelIsAsked(t *testing.T) {
	t.Parallel()
	w := New(1, worlds.Imperfection{Forgetful: true})
	insights := 0
	for _, task := range w.Train(200) {
		a := w.Attempt(task, "")
		v := w.Verdict(task, a)
		if v.Right() {
			continue
		}
		user := fmt.Sprintf("Outcome: failure (score 0.00 of 1).\n\n[[begin question 0011223344556677]]\n%s\n[[end question 0011223344556677]]\n\n[[begin feedback 0011223344556677]]\n%s\n[[end feedback 0011223344556677]]\n",
			task.Question, v.Feedback)
		reply := func(system string) (r worlds.Reflection) {
			text := w.Reply("reflector", []worlds.Message{{Speaker: "system", Text: system}, {Speaker: "user", Text: user}})
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			return r
		}
		asked, other := reply(`Answer with {"when": "the condition", "key_insight": ""}`), reply(`Answer with {"key_insight": ""}`)
		if asked.KeyInsight == "" {
			continue
		}
		insights++
		family := readJob(task.Question).family
		if strings.Contains(asked.KeyInsight, family) || !strings.Contains(asked.When, "the job is "+family) {
			t.Errorf("asked: got %q when %q, want the kind of job %s in the condition alone", asked.KeyInsight, asked.When, family)
		}
		if other.When != "" || strings.Contains(other.KeyInsight, family) {
			t.Errorf("not asked: got %q when %q", other.KeyInsight, other.When)
		}
	}
	if insights == 0 {
		t.Error("no insight")
	}
}

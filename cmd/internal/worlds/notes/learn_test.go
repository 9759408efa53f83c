package notes

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/world"
)

// notebook is a playbook in memory that shows all bullets.
type notebook struct {
	bullets []prompt.Bullet
	next    int
}

func (n *notebook) system() string {
	var out strings.Builder
	for _, b := range n.bullets {
		fmt.Fprintf(&out, "- [%s] %s\n", b.ID, b.Text)
	}
	return out.String()
}

func (n *notebook) accuracy(w *World, tasks []world.Task) float64 {
	text := n.system()
	right := 0
	for _, t := range tasks {
		if w.Verdict(t, w.Attempt(t, text)).Right {
			right++
		}
	}
	return float64(right) / float64(len(tasks))
}

// apply carries out the operations of a Curator. Unknown ids are ignored.
func (n *notebook) apply(operations []prompt.Operation) {
	for _, op := range operations {
		switch op.Type {
		case "ADD":
			n.next++
			n.bullets = append(n.bullets, prompt.Bullet{ID: fmt.Sprintf("rule-%05d", n.next), Text: op.Content})
		case "UPDATE":
			for i := range n.bullets {
				if n.bullets[i].ID == op.BulletID {
					n.bullets[i].Text = op.Content
				}
			}
		}
	}
}

// learn answers tasks in batches, and learns from each batch. A share of the verdicts is wrong.
func (n *notebook) learn(t *testing.T, reflector, curator *World, tasks []world.Task, wrong float64) {
	t.Helper()
	const batch = 10
	for from := 0; from < len(tasks); from += batch {
		text := n.system()
		var insights []string
		for _, task := range tasks[from:min(from+batch, len(tasks))] {
			a := reflector.Attempt(task, text)
			v := reflector.Verdict(task, a)
			if world.Chance(wrong, 1, "wrong", task.ID) {
				v = reflector.Wrong(task, a, v)
			}
			shown := make([]prompt.Bullet, len(n.bullets))
			for i, b := range n.bullets {
				b.Cited = len(a.Cited) > 0 && a.Cited[0] == b.ID
				shown[i] = b
			}
			var r prompt.Reflection
			if json.Unmarshal([]byte(reflector.Reply("reflector", reflection(task, a, v, shown))), &r) == nil && r.KeyInsight != "" {
				insights = append(insights, r.KeyInsight)
			}
		}
		if len(insights) == 0 {
			continue
		}
		var user strings.Builder
		user.WriteString("# Playbook\n\n" + text + "\n# Insights\n\n")
		for i, in := range insights {
			user.WriteString(prompt.JSON(map[string]any{"number": i + 1, "insight": in}) + "\n")
		}
		var c prompt.Curated
		if json.Unmarshal([]byte(curator.Reply("curator", []world.Message{{Speaker: "user", Text: user.String()}})), &c) == nil {
			n.apply(c.Operations)
		}
	}
}

// TestWorldIsLearnable learns with all bullets in the prompt, without the product. DEBRIEF_LONG=1 takes more tasks and seeds.
func TestWorldIsLearnable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	isLong := os.Getenv("DEBRIEF_LONG") != ""
	tasks := 600
	if isLong {
		tasks = 1500
	}
	for _, c := range []struct {
		name        string
		seeds       uint64
		curator     world.Imperfection
		wrong       float64
		short, long float64 // least accuracy after all tasks
	}{
		{"perfect curator", 1, world.Imperfection{}, 0, 0.75, 0.90},
		{"default curator", 2, world.Default(), 0, 0.7, 0.88},
		{"default curator, 20 % wrong verdicts", 1, world.Default(), 0.2, 0.3, 0.3},
	} {
		if !isLong {
			c.seeds = 1
		}
		for seed := range c.seeds {
			reflector, curator := New(seed, world.Default()), New(seed, c.curator)
			heldOut := reflector.HeldOut(0, 300)
			var n notebook
			line := ""
			done := 0
			for _, at := range []int{100, 300, 600, 1000, 1500} {
				if at > tasks {
					break
				}
				n.learn(t, reflector, curator, reflector.Train(at)[done:], c.wrong)
				done = at
				line += fmt.Sprintf(" %d: %.3f", at, n.accuracy(reflector, heldOut))
			}
			least := c.short
			if isLong {
				least = c.long
			}
			t.Logf("%s, seed %d:%s; %d bullets", c.name, seed, line, len(n.bullets))
			if got := n.accuracy(reflector, heldOut); got < least {
				t.Errorf("%s, seed %d: accuracy %.3f after %d tasks, want at least %.2f", c.name, seed, got, done, least)
			}
		}
	}
}

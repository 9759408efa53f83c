// Package effects adds bullets with a known effect to a simulated world. The agent of the world obeys the effect, and the
// models of the Reflector and the Curator propose the bullets like any other advice that was learned.
package effects

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/world"
)

// Bullet is advice with a known effect on the tasks that one rule decides. The text alters the decision of that rule, so it
// applies to these tasks and contradicts the rule.
type Bullet struct {
	Rule int // index into ByHand
	Text string
	// Base is the share of right answers without the bullet, 0 to 1.
	Base float64
	// Effect is the difference with the bullet in the prompt, -Base to 1-Base.
	Effect float64
	// Cited makes the agent cite the bullet in every prompt. Otherwise it cites the bullet only where it follows it.
	Cited bool
}

// follows returns the share of tasks on which the agent follows the bullet. A harmful bullet makes an answer wrong, a
// helpful one makes it right.
func (b *Bullet) follows() float64 {
	switch {
	case b.Effect < 0 && b.Base > 0:
		return -b.Effect / b.Base
	case b.Effect > 0 && b.Base < 1:
		return b.Effect / (1 - b.Base)
	}
	return 0
}

// World is a world with planted bullets.
type World struct {
	world.World
	seed uint64

	mu      sync.Mutex
	bullets []*Bullet
	propose map[string]*Bullet // by the question of the execution that it is learned from
}

// New returns a world without planted bullets.
func New(w world.World, seed uint64) *World {
	return &World{World: w, seed: seed, propose: make(map[string]*Bullet)}
}

// Plant adds a bullet. The model proposes it as the lesson of an execution with the question.
func (w *World) Plant(b Bullet, question string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bullets = append(w.bullets, &b)
	w.propose[strings.TrimSpace(question)] = &b
}

// Applicable returns the index of the planted bullet that applies to a task, or -1. Of several that are about deciding rules it
// is one by a draw for the task, so that each of them has tasks.
func (w *World) Applicable(t world.Task) int {
	var at []int
	for i, b := range w.planted() {
		if slices.Contains(t.Deciding, b.Rule) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return -1
	}
	return at[world.Draw(w.seed, "planted choice", t.Question)%uint64(len(at))]
}

// Attempt implements world.World. The answer to a task with an applicable bullet is right or wrong by a draw with the
// probability of the bullet. The agent ignores all other planted bullets.
func (w *World) Attempt(t world.Task, system string) world.Attempt {
	var b *Bullet
	at := w.Applicable(t)
	bullets := w.planted()
	if at >= 0 {
		b = bullets[at]
	}
	shown, others := split(system, bullets, b)
	if b == nil {
		return w.World.Attempt(t, others)
	}
	right := world.Chance(b.Base, w.seed, "planted base", b.Text, t.ID)
	cited := []string{}
	if shown != "" {
		follows := world.Chance(b.follows(), w.seed, "planted follow", b.Text, t.ID)
		if follows {
			right = b.Effect > 0
		}
		if follows || b.Cited {
			cited = append(cited, shown)
		}
	}
	if right && len(cited) == 0 {
		cited = w.decidingBullets(t, others)
	}
	a := w.World.Attempt(t, w.advice(t, b, right))
	a.Cited = cited
	return a
}

// planted returns the planted bullets.
func (w *World) planted() []*Bullet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.bullets)
}

// split removes the lines of planted bullets from a system prompt. It returns the id of one of them, or "" if the prompt does
// not contain it.
func split(system string, bullets []*Bullet, of *Bullet) (id, others string) {
	var kept strings.Builder
	for line := range strings.Lines(system) {
		found := -1
		for _, in := range prompt.Bullets(line) {
			found = slices.IndexFunc(bullets, func(b *Bullet) bool { return b.Text == in.Text })
			if found >= 0 && bullets[found] == of {
				id = in.ID
			}
		}
		if found < 0 {
			kept.WriteString(line)
		}
	}
	return id, kept.String()
}

// decidingBullets returns the ids of the bullets in a prompt that state a deciding rule of the task.
func (w *World) decidingBullets(t world.Task, system string) []string {
	out := []string{}
	for _, in := range prompt.Bullets(system) {
		if slices.ContainsFunc(t.Deciding, func(rule int) bool { return w.States(in.Text, t.Phase, rule) }) {
			out = append(out, in.ID)
		}
	}
	return out
}

// advice returns a system prompt with the deciding rules of a task. If the answer must be wrong, the rule of the bullet is
// altered.
func (w *World) advice(t world.Task, b *Bullet, right bool) string {
	hand := w.ByHand(t.Phase)
	var out strings.Builder
	for _, rule := range t.Deciding {
		text := hand[rule]
		if rule == b.Rule && !right {
			text = b.Text
		}
		out.WriteString("- [rule-0] " + text + "\n")
	}
	return out.String()
}

// Reply implements world.World. The Reflector states a planted bullet as the insight of its execution, and the Curator adds
// it.
func (w *World) Reply(schema string, messages []world.Message) string {
	reply := w.World.Reply(schema, messages)
	switch schema {
	case "reflector":
		e := prompt.ReadExecution(messages)
		w.mu.Lock()
		b := w.propose[strings.TrimSpace(e.Question)]
		w.mu.Unlock()
		if b != nil && e.Outcome != "success" {
			return prompt.JSON(prompt.Reflection{
				Reasoning: "The rule was not known.", ErrorIdentification: "The answer is wrong.", CorrectApproach: "Follow the rule.",
				RootCauseAnalysis: "The playbook did not state this rule.", KeyInsight: b.Text, Section: "rules", BulletTags: []prompt.Tag{},
			})
		}
	case "curator":
		return w.add(prompt.ReadCuration(messages), reply)
	}
	return reply
}

// add replaces the operations about planted insights by additions.
func (w *World) add(in prompt.Curation, reply string) string {
	var planted []int
	var add []prompt.Operation
	for i := range in.Insights {
		for _, text := range in.Insights[i].Texts() {
			if w.isPlanted(text) {
				n := in.Insights[i].Number
				planted = append(planted, n)
				add = append(add, prompt.Operation{Type: "ADD", SourceIDs: []string{}, Section: "rules", Content: text, Reflections: []int{n}})
			}
		}
	}
	if len(add) == 0 {
		return reply
	}
	var out prompt.Curated
	_ = json.Unmarshal([]byte(reply), &out) // of a broken reply only the additions remain
	out.Operations = slices.DeleteFunc(out.Operations, func(op prompt.Operation) bool {
		return slices.ContainsFunc(op.Reflections, func(n int) bool { return slices.Contains(planted, n) })
	})
	out.Operations = append(out.Operations, add...)
	return prompt.JSON(out)
}

func (w *World) isPlanted(text string) bool {
	return slices.ContainsFunc(w.planted(), func(b *Bullet) bool { return b.Text == text })
}

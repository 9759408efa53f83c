// Package text is a simulated world of rules in words. Tickets of customers go to a queue with a priority. Forty hidden rules
// decide: by the topic and the impact, with exceptions for products, plans and languages. In a drifting world the queues of five
// rules change after ChangeAfter training tasks: phase 0 ends, and phase 1 begins.
//
// An agent without rules sends every ticket to the default queue. The feedback names the right queue and priority, and
// sometimes the reason.
package text

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Names of the world with rules that stay, and of the world with rules that change. Both have the same rules and tasks up to
// training task ChangeAfter.
const (
	Name     = "text"
	Drifting = "drift"
)

// ChangeAfter is the number of training tasks of phase 0. All further training tasks of a drifting world are of phase 1.
const ChangeAfter = 1500

// World is the world of one seed.
type World struct {
	Language
	*worlds.Model
	drifts   bool
	phases   [2][]worlds.Case // rules of each phase
	products []string
	changed  []int // indexes of the rules that differ in phase 1
	tasks    worlds.Tasks
}

// New returns the world of a seed. With drifts, some of its rules change.
func New(seed uint64, drifts bool, e worlds.Imperfection) *World {
	w := &World{Model: NewModel(seed, e), drifts: drifts}
	w.drawRules()
	return w
}

// Name implements worlds.World.
func (w *World) Name() string {
	if w.drifts {
		return Drifting
	}
	return Name
}

// Changed implements worlds.Changer.
func (w *World) Changed() []int {
	if !w.drifts {
		return nil
	}
	return slices.Clone(w.changed)
}

// phase returns the phase n, or the last phase of the world if it has fewer. Only a drifting world has phase 1.
func (w *World) phase(n int) int {
	if !w.drifts {
		return 0
	}
	return min(max(n, 0), 1)
}

// Train implements worlds.World.
func (w *World) Train(n int) []worlds.Task {
	return w.tasks.First("train", n, func(n int) []worlds.Task {
		tasks := w.write("train", n, 1, false)
		for i := range tasks {
			w.setPhase(&tasks[i], i/ChangeAfter)
		}
		return tasks
	})
}

// HeldOut implements worlds.World. The tickets of the phases are the same, and their right answers differ.
func (w *World) HeldOut(phase, n int) []worlds.Task {
	phase = w.phase(phase)
	name := fmt.Sprintf("held-out-%d", phase)
	return w.tasks.First(name, n, func(n int) []worlds.Task {
		tasks := w.write(name, n, 2, true)
		for i := range tasks {
			w.setPhase(&tasks[i], phase)
		}
		return tasks
	})
}

// setPhase sets the phase and the deciding rules.
func (w *World) setPhase(t *worlds.Task, phase int) {
	t.Phase = w.phase(phase)
	for _, slot := range []string{toQueue, toPriority} {
		if i := worlds.Decide(w.phases[t.Phase], slot, readTicket(t.Question)); i >= 0 {
			t.Deciding = append(t.Deciding, i)
		}
	}
}

// write writes different tickets. A hash of the features decides whether a ticket is held out, so no combination of
// features is in both kinds.
func (w *World) write(list string, n int, stream uint64, heldOut bool) []worlds.Task {
	rng := rand.New(rand.NewPCG(w.Seed, stream))
	return worlds.WriteTasks(list, n, func() (worlds.Task, bool) {
		t := w.draw(rng)
		isHeldOut := worlds.Hash(strings.Join(t[:], "|"))%5 == 0
		if isHeldOut != heldOut || w.isContradictory(t) {
			return worlds.Task{}, false
		}
		return worlds.Task{Question: writeTicket(t, rng)}, true
	})
}

// draw returns the features of a ticket. The first values of a feature are the most frequent ones. One ticket in three gets the
// features of a rule, because otherwise few would have those of an exception.
func (w *World) draw(rng *rand.Rand) ticket {
	lowOf := func(n int) int { return min(rng.IntN(n), rng.IntN(n)) }
	var t ticket
	for f := range vocabulary {
		if feature(f) != product {
			t[f] = vocabulary[f][lowOf(len(vocabulary[f]))].name
		}
	}
	t[product] = w.products[lowOf(len(w.products))]
	if rng.IntN(3) == 0 {
		r := w.phases[0][rng.IntN(len(w.phases[0]))]
		t = t.With(r.When)
	}
	return t
}

// isContradictory reports whether, in any phase, the most specific rules that apply to a ticket give one slot different values.
func (w *World) isContradictory(t ticket) bool {
	for _, rules := range w.phases {
		for _, slot := range []string{toQueue, toPriority} {
			i := worlds.Decide(rules, slot, t)
			if i >= 0 && slices.ContainsFunc(rules, func(c worlds.Case) bool {
				return c.Slot == slot && c.Applies(t) && c.Conditions() == rules[i].Conditions() && c.Value != rules[i].Value
			}) {
				return true
			}
		}
	}
	return false
}

// Words of a ticket that do not matter.
var (
	people   = strings.Fields("Anouk Bilal Chiara Dagmar Emre Farida Goran Hiroko Imani Jorge Katya Liam Mireille Noor Otis Priya Quentin Rosa Sven Tomoko")
	fillers  = []string{"Our reference is %d.", "We wrote to you on the %d. already.", "My callback number ends in %d.", "This concerns file %d.", "We are office %d."}
	closings = []string{"Thanks, %s", "Regards, %s", "Yours, %s", "Best wishes from %s", "Sincerely, %s"}
	places   = []string{"It happens in %s.", "We are speaking of %s.", "%s is the part in question.", "The matter is %s.", "You will know it: %s."}
)

// writeTicket returns a ticket as a text.
func writeTicket(t ticket, rng *rand.Rand) string {
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	phrase := func(f feature) string {
		for i := range vocabulary[f] {
			if v := &vocabulary[f][i]; v.name == t[f] {
				return pick(v.tickets)
			}
		}
		return ""
	}
	sentence := func(s string) string {
		if s == "" {
			return s
		}
		return strings.ToUpper(s[:1]) + s[1:] + "."
	}
	parts := []string{
		sentence(phrase(topic)), sentence(phrase(plan)), sentence(phrase(impact)),
		fmt.Sprintf(pick(places), t[product]), fmt.Sprintf(pick(fillers), 2+rng.IntN(27)+100*rng.IntN(9)),
	}
	rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return phrase(language) + ",\n" + strings.Join(parts, " ") + "\n" + fmt.Sprintf(pick(closings), pick(people))
}

// ByHand implements worlds.World.
func (w *World) ByHand(phase int) []string {
	return worlds.ByHand(w.Seed, w.phases[w.phase(phase)], func(c worlds.Case) worlds.Rule { return rule{c} })
}

// States implements worlds.World.
func (w *World) States(text string, phase, rule int) bool {
	c, ok := readRule(text)
	return ok && c == w.phases[w.phase(phase)][rule]
}

// right returns the answer that the rules of the task's phase decide.
func (w *World) right(t *worlds.Task) answer {
	rules := w.phases[t.Phase]
	decide := func(slot, usual string) string {
		if i := worlds.Decide(rules, slot, readTicket(t.Question)); i >= 0 {
			return rules[i].Value
		}
		return usual
	}
	return answer{toQueue: decide(toQueue, defaultQueue), toPriority: decide(toPriority, defaultPriority)}
}

// Verdict implements worlds.World. The feedback on a wrong answer contains the reason in four of ten cases.
func (w *World) Verdict(t worlds.Task, a worlds.Attempt) worlds.Verdict {
	right, got := w.right(&t), readAnswer(a.Answer)
	d := worlds.Dice(worlds.Draw(w.Seed, "verdict", t.ID, a.Answer))
	wrong := got.differsIn(right)
	if len(wrong) == 0 {
		return worlds.Verdict{Score: 1, Feedback: []string{"", "Right.", "Well sorted."}[d.Draw("praise")%3]}
	}
	slot := wrong[0]
	var reason ticket // the condition of the rule; empty without a reason
	if d.Chance(0.4, "reason") {
		rules := w.phases[t.Phase]
		if i := worlds.Decide(rules, slot, readTicket(t.Question)); i >= 0 {
			reason = rules[i].When
		}
	}
	text := correction(slot, right[slot], reason, d)
	if len(wrong) > 1 {
		text += " " + correction(wrong[1], right[wrong[1]], ticket{}, d)
	}
	return worlds.Verdict{Feedback: text}
}

// Wrong implements worlds.World: it praises a wrong answer, and corrects a right one by an invented value, some with a reason.
func (w *World) Wrong(t worlds.Task, a worlds.Attempt, v worlds.Verdict) worlds.Verdict {
	if !v.Right() {
		return worlds.Verdict{Score: 1, Feedback: "Right."}
	}
	right := w.right(&t)
	d := worlds.Dice(worlds.Draw(w.Seed, "wrong verdict", t.ID, a.Answer))
	slot, invented := toQueue, queues[d.Draw("queue")%uint64(len(queues))]
	if invented == right[toQueue] {
		invented = defaultQueue
	}
	if d.Chance(0.4, "output") {
		slot, invented = toPriority, fmt.Sprint(1+d.Draw("priority")%4)
		if invented == right[toPriority] {
			invented = fmt.Sprint(1 + (invented[0]-'0')%4) // the next priority
		}
	}
	var reason ticket
	if d.Chance(0.3, "reason") {
		f := feature(d.Draw("feature") % uint64(featureCount))
		reason[f] = readTicket(t.Question)[f]
	}
	return worlds.Verdict{Feedback: correction(slot, invented, reason, d)}
}

// correction returns feedback with the right value, and with the reason unless it is empty.
func correction(slot, value string, reason ticket, d worlds.Dice) string {
	forms := []string{"This ticket belongs to %s", "It should have gone to %s", "%s had to deal with this one", "The proper place was %s"}
	if slot == toPriority {
		forms = []string{"This ticket has priority %s", "We treat such a ticket as P%s", "It should have had urgency %s", "The right rank was priority %s"}
	}
	text := fmt.Sprintf(forms[d.Draw("form "+slot)%4], value)
	var why []string
	for f, v := range reason {
		if v != "" {
			why = append(why, say(feature(f), v, d.Draw("reason "+featureNames[f])))
		}
	}
	if len(why) > 0 {
		text += ", because of " + strings.Join(why, " and ")
	}
	return text + "."
}

// Distractors implements worlds.World. The rules are about products that no ticket names.
func (w *World) Distractors(n int) []string {
	others := slices.DeleteFunc(slices.Clone(productNames), func(name string) bool { return slices.Contains(w.products, name) })
	rng := rand.New(rand.NewPCG(w.Seed, 3))
	return worlds.Distinct(n, func(int) string {
		r := worlds.Case{Slot: toQueue, Value: queues[rng.IntN(len(queues))]}
		if rng.IntN(3) == 0 {
			r.Slot, r.Value = toPriority, fmt.Sprint(1+rng.IntN(4))
		}
		r.When[product] = others[rng.IntN(len(others))]
		for _, f := range []feature{topic, plan, language, impact} {
			if rng.IntN(2) == 0 {
				r.When[f] = vocabulary[f][rng.IntN(len(vocabulary[f]))].name
			}
		}
		return rule{r}.Text(rng.Uint64())
	})
}

package text

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Slots of a rule.
const (
	toQueue    = "queue"
	toPriority = "priority"
)

// rule decides the queue or the priority of the tickets with all features of a condition.
type rule struct{ worlds.Case }

// Section implements worlds.Rule.
func (r rule) Section() string { return r.Slot + " of tickets" }

// Text implements worlds.Rule.
func (r rule) Text(draw uint64) string {
	subject := "tickets"
	var about, from, tail []string
	for f, v := range r.When {
		if v == "" {
			continue
		}
		said := say(feature(f), v, draw>>(4*f))
		switch feature(f) {
		case topic:
			about = append(about, "about "+said)
		case product:
			about = append(about, "for "+said)
		case plan:
			from = append(from, "from "+said)
		case language:
			tail = append(tail, said)
		default:
			tail = append(tail, "with "+said)
		}
	}
	which := strings.Join(append(append(about, from...), tail...), " ")
	forms := []string{
		"Put %s %s into the %s queue.",
		"The right queue for %s %s is %s.",
		"Whenever there are %s %s, the team of the %s queue takes care of them.",
		"Leave %s %s to the %s queue.",
	}
	if r.Slot == toPriority {
		forms = []string{
			"Give %s %s priority %s.",
			"Handle %s %s with urgency %s.",
			"Rank %s %s as P%s.",
			"In the list, %s %s stand at priority %s.",
		}
	}
	return fmt.Sprintf(forms[(draw>>32)%uint64(len(forms))], subject, which, r.Value)
}

// readRule returns the rule that a text states. A text states none if it has no condition, no decision, or both decisions.
var readRule = worlds.CachedOK(func(text string) (worlds.Case, bool) {
	queue, priority := readQueue(text), readPriority(text)
	c := worlds.Case{When: readCondition(text), Slot: toQueue, Value: queue}
	if priority != "" {
		c.Slot, c.Value = toPriority, priority
	}
	oneDecision := (queue == "") != (priority == "")
	if !oneDecision || c.Conditions() == 0 {
		return worlds.Case{}, false
	}
	return c, true
})

// Numbers of exceptions. There is one general rule for each impact, and one for each topic but one.
const (
	queueExceptions    = 14
	priorityExceptions = 11
)

// drawRules draws the products and the rules of both phases. The rules of the phases differ in the queues of the changed ones.
func (w *World) drawRules() {
	rng := rand.New(rand.NewPCG(w.Seed, 0x6472696674)) // "drift"
	for _, i := range rng.Perm(len(productNames))[:8] {
		w.products = append(w.products, productNames[i])
	}
	var rules []worlds.Case
	for n, i := range rng.Perm(len(vocabulary[topic]))[1:] {
		rules = append(rules, worlds.Case{When: ticket{topic: vocabulary[topic][i].name}, Slot: toQueue, Value: queues[n%len(queues)]})
	}
	priorities := []string{"1", "2", "4", "2"}
	for n, i := range rng.Perm(len(vocabulary[impact])) {
		rules = append(rules, worlds.Case{When: ticket{impact: vocabulary[impact][i].name}, Slot: toPriority, Value: priorities[n]})
	}
	rules = w.addExceptions(rng, rules, queueExceptions, toQueue, topic, []feature{product, plan, language})
	rules = w.addExceptions(rng, rules, priorityExceptions, toPriority, impact, []feature{plan, product, topic})
	w.phases = [2][]worlds.Case{rules, slices.Clone(rules)}
	w.changed = selectChanged(rng, rules)
	for _, i := range w.changed {
		changed := &w.phases[1][i]
		for changed.Value == rules[i].Value {
			changed.Value = queues[rng.IntN(len(queues))]
		}
	}
}

// addExceptions adds n exceptions for a slot: rules with one more feature than a general rule about the main feature, and with another
// value. The further features take turns.
func (w *World) addExceptions(rng *rand.Rand, rules []worlds.Case, n int, slot string, main feature, further []feature) []worlds.Case {
	value := func(f feature) string {
		if f == product {
			return w.products[rng.IntN(len(w.products))]
		}
		return vocabulary[f][rng.IntN(len(vocabulary[f]))].name
	}
	for added := 0; added < n; {
		f := further[added%len(further)]
		r := worlds.Case{Slot: slot}
		r.When[main], r.When[f] = value(main), value(f)
		if slot == toQueue {
			r.Value = queues[rng.IntN(len(queues))]
		} else {
			r.Value = fmt.Sprint(1 + rng.IntN(4))
		}
		var plain ticket // without the further feature
		plain[main] = r.When[main]
		general := worlds.Decide(rules, slot, plain)
		isNew := !slices.ContainsFunc(rules, func(o worlds.Case) bool { return o.Condition() == r.Condition() })
		if isNew && general >= 0 && rules[general].Value != r.Value {
			rules = append(rules, r)
			added++
		}
	}
	return rules
}

// selectChanged selects three general rules and two exceptions about queues. Their topics are among the more frequent ones,
// so that the change can be seen in some hundred tasks.
func selectChanged(rng *rand.Rand, rules []worlds.Case) []int {
	var frequent []string
	for i := range vocabulary[topic][:7] {
		frequent = append(frequent, vocabulary[topic][i].name)
	}
	want := map[int]int{1: 3, 2: 2} // by the number of features
	var changed []int
	for _, i := range rng.Perm(len(rules)) {
		r := rules[i]
		if n := r.Conditions(); r.Slot == toQueue && want[n] > 0 && slices.Contains(frequent, r.When[topic]) {
			want[n]--
			changed = append(changed, i)
		}
	}
	slices.Sort(changed)
	return changed
}

package text

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// Slots of a rule.
const (
	toQueue    = "queue"
	toPriority = "priority"
)

// rule decides the queue or the priority of the tickets with all features of a condition.
type rule struct{ world.Case }

// Section implements world.Rule.
func (r rule) Section() string { return r.Slot + " of tickets" }

// Text implements world.Rule.
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
var readRule = world.CachedOK(func(text string) (world.Case, bool) {
	queue, priority := readQueue(text), readPriority(text)
	c := world.Case{When: readCondition(text), Slot: toQueue, Value: queue}
	if priority != "" {
		c.Slot, c.Value = toPriority, priority
	}
	oneDecision := (queue == "") != (priority == "")
	if !oneDecision || c.Conditions() == 0 {
		return world.Case{}, false
	}
	return c, true
})

// Numbers of exceptions. There is one general rule for each impact, and one for each topic but one.
const (
	queueExceptions    = 14
	priorityExceptions = 11
)

// hidden draws the rules of both phases and the products of a seed. The rules of the phases differ in the queues of the
// changed ones.
func hidden(seed uint64) (phases [2][]world.Case, products []string, changed []int) {
	rng := rand.New(rand.NewPCG(seed, 0x6472696674)) // "drift"
	for _, i := range rng.Perm(len(productNames))[:8] {
		products = append(products, productNames[i])
	}
	value := func(f feature) string {
		if f == product {
			return products[rng.IntN(len(products))]
		}
		return vocabulary[f][rng.IntN(len(vocabulary[f]))].name
	}
	var rules []world.Case
	topics := rng.Perm(len(vocabulary[topic]))[1:]
	for n, i := range topics {
		rules = append(rules, world.Case{When: ticket{topic: vocabulary[topic][i].name}, Slot: toQueue, Value: queues[n%len(queues)]})
	}
	priorities := []string{"1", "2", "4", "2"}
	for n, i := range rng.Perm(len(vocabulary[impact])) {
		rules = append(rules, world.Case{When: ticket{impact: vocabulary[impact][i].name}, Slot: toPriority, Value: priorities[n]})
	}
	// except adds n exceptions for a slot: rules with one more feature than a general rule, and with another value.
	except := func(n int, slot string, base feature, others []feature) {
		for added := 0; added < n; {
			f := others[added%len(others)]
			r := world.Case{Slot: slot}
			r.When[base], r.When[f] = value(base), value(f)
			if slot == toQueue {
				r.Value = queues[rng.IntN(len(queues))]
			} else {
				r.Value = fmt.Sprint(1 + rng.IntN(4))
			}
			var plain ticket // without the second feature
			plain[base] = r.When[base]
			general := world.Decide(rules, slot, plain)
			isNew := !slices.ContainsFunc(rules, func(o world.Case) bool { return o.Condition() == r.Condition() })
			if isNew && general >= 0 && rules[general].Value != r.Value {
				rules = append(rules, r)
				added++
			}
		}
	}
	except(queueExceptions, toQueue, topic, []feature{product, plan, language})
	except(priorityExceptions, toPriority, impact, []feature{plan, product, topic})
	phases[0] = rules
	phases[1] = slices.Clone(rules)
	changed = selectChanged(rng, rules)
	for _, i := range changed {
		for phases[1][i].Value == rules[i].Value {
			phases[1][i].Value = queues[rng.IntN(len(queues))]
		}
	}
	return phases, products, changed
}

// selectChanged selects three general rules and two exceptions about queues. Their topics are among the more frequent ones,
// so that the change can be seen in some hundred tasks.
func selectChanged(rng *rand.Rand, rules []world.Case) []int {
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

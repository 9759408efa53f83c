package drift

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Outputs of a rule.
const (
	toQueue    = "queue"
	toPriority = "priority"
)

// rule decides the queue or the priority of the tickets with all features of a condition. Of two rules the one with more
// features wins.
type rule struct {
	when   ticket
	output string
	value  string
}

// applies reports whether the rule decides a ticket.
func (r rule) applies(t ticket) bool {
	for f, v := range r.when {
		if v != "" && v != t[f] {
			return false
		}
	}
	return true
}

// features counts the features of the condition.
func (r rule) features() int {
	n := 0
	for _, v := range r.when {
		if v != "" {
			n++
		}
	}
	return n
}

// Condition implements roles.Rule.
func (r rule) Condition() string { return r.output + "|" + strings.Join(r.when[:], "|") }

// Meaning implements roles.Rule.
func (r rule) Meaning() string { return r.Condition() + "=" + r.value }

// Section implements roles.Rule.
func (r rule) Section() string { return r.output + " of tickets" }

// Text implements roles.Rule.
func (r rule) Text(draw uint64) string {
	subject := "tickets"
	var about, from, tail []string
	for f, v := range r.when {
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
	if r.output == toPriority {
		forms = []string{
			"Give %s %s priority %s.",
			"Handle %s %s with urgency %s.",
			"Rank %s %s as P%s.",
			"In the list, %s %s stand at priority %s.",
		}
	}
	return fmt.Sprintf(forms[(draw>>32)%uint64(len(forms))], subject, which, r.value)
}

// readRule returns the rule that a text states. A text without a condition, or with several decisions, states none.
func readRule(text string) (rule, bool) {
	queue, priority := readQueue(text), readPriority(text)
	r := rule{when: readCondition(text), output: toQueue, value: queue}
	if priority != "" {
		r.output, r.value = toPriority, priority
	}
	if (queue == "") == (priority == "") || r.features() == 0 {
		return rule{}, false
	}
	return r, true
}

// decide returns the index of the rule that decides an output of a ticket, or -1: the one with most features, else the
// first. tie reports whether another rule with as many features has another value.
func decide(rules []rule, output string, t ticket) (at int, tie bool) {
	at = -1
	for i, r := range rules {
		if r.output != output || !r.applies(t) {
			continue
		}
		switch {
		case at < 0 || r.features() > rules[at].features():
			at, tie = i, false
		case r.features() == rules[at].features() && r.value != rules[at].value:
			tie = true
		}
	}
	return at, tie
}

// Numbers of rules. One topic has no general rule.
const (
	queueExceptions    = 14
	priorityExceptions = 11
)

// hidden draws the rules of both phases and the products of a seed. The rules of the phases differ in the queues of the
// changed ones.
func hidden(seed uint64) (phases [2][]rule, products []string, changed []int) {
	rng := rand.New(rand.NewPCG(seed, 0x6472696674)) // "drift"
	for _, i := range rng.Perm(len(names))[:8] {
		products = append(products, productName(i))
	}
	value := func(f feature) string {
		if f == product {
			return products[rng.IntN(len(products))]
		}
		return vocabulary[f][rng.IntN(len(vocabulary[f]))].name
	}
	var rules []rule
	topics := rng.Perm(len(vocabulary[topic]))[1:]
	for n, i := range topics {
		rules = append(rules, rule{ticket{topic: vocabulary[topic][i].name}, toQueue, queues[n%len(queues)]})
	}
	priorities := []string{"1", "2", "4", "2"}
	for n, i := range rng.Perm(len(vocabulary[impact])) {
		rules = append(rules, rule{ticket{impact: vocabulary[impact][i].name}, toPriority, priorities[n]})
	}
	except := func(n int, output string, base feature, others []feature) {
		for added := 0; added < n; {
			f := others[added%len(others)]
			r := rule{output: output}
			r.when[base], r.when[f] = value(base), value(f)
			if output == toQueue {
				r.value = queues[rng.IntN(len(queues))]
			} else {
				r.value = fmt.Sprint(1 + rng.IntN(4))
			}
			var of ticket
			of[base] = r.when[base]
			at, _ := decide(rules, output, of)
			isNew := !slices.ContainsFunc(rules, func(o rule) bool { return o.Condition() == r.Condition() })
			if isNew && at >= 0 && rules[at].value != r.value {
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
		for phases[1][i].value == rules[i].value {
			phases[1][i].value = queues[rng.IntN(len(queues))]
		}
	}
	return phases, products, changed
}

// selectChanged selects three general rules and two exceptions about queues. Their topics are among the more frequent ones,
// so that the change can be seen in some hundred tasks.
func selectChanged(rng *rand.Rand, rules []rule) []int {
	var frequent []string
	for i := range vocabulary[topic][:7] {
		frequent = append(frequent, vocabulary[topic][i].name)
	}
	want := map[int]int{1: 3, 2: 2} // by the number of features
	var changed []int
	for _, i := range rng.Perm(len(rules)) {
		r := rules[i]
		if n := r.features(); r.output == toQueue && want[n] > 0 && slices.Contains(frequent, r.when[topic]) {
			want[n]--
			changed = append(changed, i)
		}
	}
	slices.Sort(changed)
	return changed
}

package tools

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// inventory is the tool that returns the facts of a service and a tenant.
const inventory = "inventory"

// plan holds the choices of the agent: a value for each slot.
type plan struct {
	op, service string
	values      []string // by slot
	cited       []string
	reasoning   string
}

// makePlan makes a plan with the bullets of a system prompt. If several apply to a slot, the one with most conditions decides, then
// the first. Slots without a bullet have the usual value.
func makePlan(question string, f facts, system string) plan {
	r := readRequest(question)
	f[operation] = r.op
	p := plan{op: r.op, service: r.service, values: make([]string, len(slots)), cited: []string{}}
	advice := worlds.ReadAdvice(worlds.ReadBullets(system), readCase)
	var why strings.Builder
	fmt.Fprintf(&why, "The request needs %s.\n", p.op)
	for i := range slots {
		p.values[i] = slots[i].values[0]
		c, id := advice.Decide(slots[i].name, f)
		if id == "" {
			continue
		}
		p.values[i] = c.Value
		fmt.Fprintf(&why, "[%s] decides %s: %s.\n", id, slots[i].name, p.values[i])
		if !slices.Contains(p.cited, id) {
			p.cited = append(p.cited, id)
		}
	}
	p.reasoning = why.String()
	return p
}

// calls returns the tool calls of a plan, in their order.
func (p *plan) calls() []worlds.Step {
	var first, last []worlds.Step
	var arguments []string
	for i := range slots {
		s := &slots[i]
		switch {
		case !s.isGuard:
			arguments = append(arguments, s.name+"="+p.values[i])
		case p.values[i] == no:
		case s.isAfter:
			last = append(last, worlds.Step{Tool: s.name, Arguments: "service=" + p.service})
		default:
			first = append(first, worlds.Step{Tool: s.name, Arguments: "service=" + p.service})
		}
	}
	call := worlds.Step{Tool: p.op, Arguments: "service=" + p.service + " " + strings.Join(arguments, " ")}
	return append(append(first, call), last...)
}

// text returns a plan as an answer.
func (p *plan) text() string { return callsText(p.calls()) }

func callsText(calls []worlds.Step) string {
	texts := make([]string, len(calls))
	for i, c := range calls {
		texts[i] = c.Tool + "(" + c.Arguments + ")"
	}
	return strings.Join(texts, "; ")
}

var oneCall = regexp.MustCompile(`(\w+)\(([^)]*)\)`)

// readPlan returns the values of the slots in an answer. Arguments that it does not name are empty.
func readPlan(answer string) []string {
	values := make([]string, len(slots))
	for i := range slots {
		if slots[i].isGuard {
			values[i] = no
		}
	}
	for _, m := range oneCall.FindAllStringSubmatch(answer, -1) {
		if i := slotIndex(m[1]); i >= 0 {
			values[i] = yes
			continue
		}
		for _, s := range setting.FindAllStringSubmatch(m[2], -1) {
			values[slotIndex(s[1])] = s[2] // setting matches only names of slots
		}
	}
	return values
}

// right returns the right values of all slots: by the hidden rules, else the usual ones.
func (w *World) right(question string) []string {
	values := make([]string, len(slots))
	for i, rule := range w.deciding(readRequest(question)) {
		values[i] = slots[i].values[0]
		if rule >= 0 {
			values[i] = w.hidden[rule].Value
		}
	}
	return values
}

// isLoud reports whether the operation fails if a slot is wrong. Otherwise the call succeeds and leaves a wrong state.
func (w *World) isLoud(op string, s *slot, right string) bool {
	isUnneeded := s.isGuard && right == no // a guard that was called for nothing
	if s.isAfter || isUnneeded {
		return false
	}
	return worlds.Draw(w.Seed, "loud", op, s.name)%2 == 0
}

// Attempt implements worlds.World. The agent looks into the inventory, makes a plan and calls its tools one by one, up to the first call
// that fails.
func (w *World) Attempt(t worlds.Task, system string) worlds.Attempt {
	r := readRequest(t.Question)
	done := []worlds.Step{{
		Tool: inventory, Arguments: "service=" + r.service + " tenant=" + r.tenant, Output: inventoryText(r.service, r.tenant, w.factsOf(r)),
	}}
	p := makePlan(t.Question, readFacts(t.Question+"\n"+done[0].Output), system)
	end := "Done: "
	for _, call := range p.calls() {
		call.Output = "ok"
		if call.Tool == p.op { // a guard after the operation cannot make it fail, see isLoud
			call.Output, call.Failed = w.result(t.ID, &p, w.right(t.Question))
		}
		done = append(done, call)
		if call.Failed {
			end = "Stopped by an error: "
			break
		}
	}
	return worlds.Attempt{Answer: end + callsText(done[1:]), Reasoning: p.reasoning, Cited: p.cited, Steps: done}
}

func inventoryText(service, tenant string, f facts) string {
	return fmt.Sprintf("%s %s; %s %s; %s %s; %s %s", service, report(cluster, f[cluster]), service, report(kind, f[kind]),
		tenant, report(tier, f[tier]), tenant, report(region, f[region]))
}

// result returns the output of the operation. The operation fails at its first wrong slot that is loud. Half of the
// errors contain a line of the manual.
func (w *World) result(id string, p *plan, right []string) (output string, failed bool) {
	for i := range slots {
		s := &slots[i]
		if p.values[i] == right[i] || !w.isLoud(p.op, s, right[i]) {
			continue
		}
		output = "E422 rejected"
		if s.isGuard {
			output = "E412 precondition"
		}
		if worlds.Draw(w.Seed, "manual", id, s.name)%2 == 0 {
			output += fmt.Sprintf(" (man %s %d.%d: %s)", p.op, 1+i, 1+len(s.values), s.signs[right[i]][2])
		}
		return output, true
	}
	return "ok", false
}

// Verdict implements worlds.World. The feedback on a failure is about the first wrong slot, or about the one that failed
// the call: nothing in 40 % of the cases, a complaint in 30 %, and the rule in 30 %.
func (w *World) Verdict(t worlds.Task, a worlds.Attempt) worlds.Verdict {
	right, got := w.right(t.Question), readPlan(a.Answer)
	d := worlds.Dice(worlds.Draw(w.Seed, "verdict", t.ID, a.Answer))
	if slices.Equal(right, got) {
		return worlds.Verdict{Score: 1, Feedback: []string{"", "Thank you, all is well.", "Works."}[d.Draw("praise")%3]}
	}
	asked := readRequest(t.Question)
	isLoud := func(i int) bool { return w.isLoud(asked.op, &slots[i], right[i]) }
	wrong := -1 // the first loud wrong slot, else the first wrong one
	for i := range slots {
		if got[i] == right[i] {
			continue
		}
		if wrong < 0 || isLoud(i) && !isLoud(wrong) {
			wrong = i
		}
	}
	deciding := w.deciding(asked)[wrong] // the rule of the wrong slot
	switch n := d.Draw("kind") % 10; {
	case n < 4:
		return worlds.Verdict{}
	case n < 7 || deciding < 0:
		return worlds.Verdict{Feedback: complaint(&slots[wrong], right[wrong], d)}
	}
	return worlds.Verdict{Feedback: "The runbook says: " + rule{w.hidden[deciding]}.Text(d.Draw("wording"))}
}

// complaint returns feedback in the words of a customer.
func complaint(s *slot, right string, d worlds.Dice) string {
	form := []string{"Failed: the customer reported that %s.", "Not solved, since %s.", "The case was opened again: %s."}[d.Draw("form")%3]
	return fmt.Sprintf(form, s.signs[right][d.Draw("sign")%2])
}

// Wrong implements worlds.World: it praises a wrong plan. For a right one it returns nothing, or asks for an invented value by a
// complaint or a rule.
func (w *World) Wrong(t worlds.Task, a worlds.Attempt, v worlds.Verdict) worlds.Verdict {
	if !v.Right() {
		return worlds.Verdict{Score: 1, Feedback: "Thank you, all is well."}
	}
	d := worlds.Dice(worlds.Draw(w.Seed, "wrong verdict", t.ID, a.Answer))
	i := d.Draw("slot") % uint64(len(slots))
	s := &slots[i]
	value := s.values[d.Draw("value")%uint64(len(s.values))]
	if right := w.right(t.Question)[i]; value == right {
		value = s.values[(slices.Index(s.values, right)+1)%len(s.values)]
	}
	switch n := d.Draw("kind") % 10; {
	case n < 4:
		return worlds.Verdict{}
	case n < 7:
		return worlds.Verdict{Feedback: complaint(s, value, d)}
	}
	asked := readRequest(t.Question)
	r := worlds.Case{When: facts{operation: asked.op}, Slot: s.name, Value: value}
	f := anyFact(d.Draw("fact"))
	r.When[f] = w.factsOf(asked)[f]
	return worlds.Verdict{Feedback: "The runbook says: " + rule{r}.Text(d.Draw("wording"))}
}

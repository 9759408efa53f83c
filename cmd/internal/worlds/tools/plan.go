package tools

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/roles"
	"debrief/cmd/internal/worlds/world"
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

// plan makes a plan with the bullets of a system prompt: of several that apply the one with most conditions, else the
// first. Slots without a bullet have the usual value.
func (w *World) plan(question string, f facts, system string) plan {
	r := w.read(question)
	p := plan{op: r.op, service: r.service, values: make([]string, len(slots)), cited: []string{}}
	var rules []rule
	var ids []string
	for _, b := range prompt.Bullets(system) {
		if r, ok := w.readRule(b.Text); ok && r.applies(p.op, f) {
			rules, ids = append(rules, r), append(ids, b.ID)
		}
	}
	var why strings.Builder
	fmt.Fprintf(&why, "The request needs %s.\n", p.op)
	for i := range slots {
		p.values[i] = slots[i].values[0]
		at := decide(rules, slots[i].name, p.op, f)
		if at < 0 {
			continue
		}
		p.values[i] = rules[at].value
		fmt.Fprintf(&why, "[%s] decides %s: %s.\n", ids[at], slots[i].name, p.values[i])
		if !slices.Contains(p.cited, ids[at]) {
			p.cited = append(p.cited, ids[at])
		}
	}
	p.reasoning = why.String()
	return p
}

// calls returns the tool calls of a plan, in their order.
func (p *plan) calls() []world.Step {
	var first, last []world.Step
	var arguments []string
	for i := range slots {
		s := &slots[i]
		switch {
		case !s.isGuard:
			arguments = append(arguments, s.name+"="+p.values[i])
		case p.values[i] == no:
		case s.isLast:
			last = append(last, world.Step{Tool: s.name, Arguments: "service=" + p.service})
		default:
			first = append(first, world.Step{Tool: s.name, Arguments: "service=" + p.service})
		}
	}
	call := world.Step{Tool: p.op, Arguments: "service=" + p.service + " " + strings.Join(arguments, " ")}
	return append(append(first, call), last...)
}

// text returns a plan as an answer.
func (p *plan) text() string { return callsText(p.calls()) }

func callsText(calls []world.Step) string {
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
		if at := slotIndex(m[1]); at >= 0 {
			values[at] = yes
			continue
		}
		for _, s := range setting.FindAllStringSubmatch(m[2], -1) {
			values[slotIndex(s[1])] = s[2]
		}
	}
	return values
}

// right returns the values of the slots that the hidden rules decide.
func (w *World) right(question string) []string {
	r := w.read(question)
	f := w.facts(r)
	values := make([]string, len(slots))
	for i := range slots {
		values[i] = slots[i].values[0]
		if at := decide(w.hidden, slots[i].name, r.op, f); at >= 0 {
			values[i] = w.hidden[at].value
		}
	}
	return values
}

// isLoud reports whether the operation fails if a slot is wrong. Else the call succeeds and the state is wrong.
func (w *World) isLoud(op string, s *slot, right string) bool {
	if s.isLast || s.isGuard && right == no {
		return false
	}
	return world.Draw(w.seed, "loud", op, s.name)%2 == 0
}

// Attempt implements world.World. The agent looks into the inventory, makes a plan and carries it out, up to the first
// call that fails.
func (w *World) Attempt(t world.Task, system string) world.Attempt {
	r := w.read(t.Question)
	f := w.facts(r)
	p := w.plan(t.Question, f, system)
	a := world.Attempt{Reasoning: p.reasoning, Cited: p.cited}
	a.Steps = append(a.Steps, world.Step{Tool: inventory, Arguments: "service=" + r.service + " tenant=" + r.tenant, Output: inventoryText(r.service, r.tenant, f)})
	right := w.right(t.Question)
	var done []world.Step
	for _, c := range p.calls() {
		c.Output = "ok"
		if c.Tool == p.op {
			c.Output, c.Failed = w.result(t.ID, &p, right)
		}
		done = append(done, c)
		if c.Failed {
			break
		}
	}
	a.Steps = append(a.Steps, done...)
	a.Answer = "Done: " + callsText(done)
	if done[len(done)-1].Failed {
		a.Answer = "Stopped by an error: " + callsText(done)
	}
	return a
}

func inventoryText(service, tenant string, f facts) string {
	return fmt.Sprintf("%s %s; %s %s; %s %s; %s %s", service, report(cluster, f[cluster]), service, report(kind, f[kind]),
		tenant, report(tier, f[tier]), tenant, report(region, f[region]))
}

// result returns the output of the operation. The first wrong slot that is loud fails it. Half of the errors contain a
// line of the manual.
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
		if world.Draw(w.seed, "manual", id, s.name)%2 == 0 {
			output += fmt.Sprintf(" (man %s %d.%d: %s)", p.op, 1+i, 1+len(s.values), s.signs[right[i]][2])
		}
		return output, true
	}
	return "ok", false
}

// Verdict implements world.World. The feedback on a failure is about the first wrong slot, or about the one that failed
// the call: nothing in 40 % of the cases, a complaint in 30 %, and the rule in 30 %.
func (w *World) Verdict(t world.Task, a world.Attempt) world.Verdict {
	right, got := w.right(t.Question), readPlan(a.Answer)
	d := roles.Dice(world.Draw(w.seed, "verdict", t.ID, a.Answer))
	if slices.Equal(right, got) {
		return world.Verdict{Right: true, Feedback: []string{"", "Thank you, all is well.", "Works."}[d.Draw("praise")%3]}
	}
	op := w.read(t.Question).op
	wrong := -1
	for i := range slots {
		if got[i] != right[i] && (wrong < 0 || w.isLoud(op, &slots[i], right[i]) && !w.isLoud(op, &slots[wrong], right[wrong])) {
			wrong = i
		}
	}
	at := -1
	for _, i := range t.Deciding {
		if w.hidden[i].slot == slots[wrong].name {
			at = i
		}
	}
	switch n := d.Draw("kind") % 10; {
	case n < 4:
		return world.Verdict{}
	case n < 7 || at < 0:
		return world.Verdict{Feedback: complaint(&slots[wrong], right[wrong], d)}
	}
	return world.Verdict{Feedback: "The runbook says: " + w.hidden[at].Text(d.Draw("wording"))}
}

// complaint returns feedback in the words of a customer.
func complaint(s *slot, right string, d roles.Dice) string {
	form := []string{"Failed: the customer reported that %s.", "Not solved, since %s.", "The case was opened again: %s."}[d.Draw("form")%3]
	return fmt.Sprintf(form, s.signs[right][d.Draw("sign")%2])
}

// Wrong implements world.World.
func (w *World) Wrong(t world.Task, a world.Attempt, v world.Verdict) world.Verdict {
	if !v.Right {
		return world.Verdict{Right: true, Feedback: "Thank you, all is well."}
	}
	d := roles.Dice(world.Draw(w.seed, "wrong verdict", t.ID, a.Answer))
	at := d.Draw("slot") % uint64(len(slots))
	s := &slots[at]
	value := s.values[d.Draw("value")%uint64(len(s.values))]
	if right := w.right(t.Question)[at]; value == right {
		value = s.values[(slices.Index(s.values, right)+1)%len(s.values)]
	}
	switch n := d.Draw("kind") % 10; {
	case n < 4:
		return world.Verdict{}
	case n < 7:
		return world.Verdict{Feedback: complaint(s, value, d)}
	}
	of := w.read(t.Question)
	r := rule{op: of.op, slot: s.name, value: value}
	f := fact(d.Draw("fact") % uint64(factCount))
	r.when[f] = w.facts(of)[f]
	return world.Verdict{Feedback: "The runbook says: " + r.Text(d.Draw("wording"))}
}

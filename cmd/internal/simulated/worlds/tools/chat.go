package tools

import (
	"slices"

	"debrief/cmd/internal/simulated/worlds/world"
)

// acknowledgement is the reply to a message that requests nothing, such as the user's opinion of a run.
const acknowledgement = "I have taken note of it."

// Next implements world.Caller. The model looks into the inventory, makes a plan and calls its tools one by one, up to the first
// call that fails. It knows the request, the bullets and the results of its calls, and mentions no ids of bullets.
func (Language) Next(question, bullets string, done []world.Step) world.Turn {
	r := readRequest(question)
	if r.op == "" {
		return world.Turn{Text: acknowledgement}
	}
	if len(done) == 0 {
		return world.Turn{Text: "I look up the service and the tenant.", Call: &world.Step{Tool: inventory, Arguments: "service=" + r.service + " tenant=" + r.tenant}}
	}
	p := makePlan(question, readFacts(question+"\n"+done[0].Output), bullets)
	calls, made := p.calls(), done[1:]
	switch {
	case len(made) > 0 && made[len(made)-1].Failed:
		return world.Turn{Text: "Stopped by an error: " + callsText(made)}
	case len(made) >= len(calls):
		return world.Turn{Text: "Done: " + callsText(made)}
	case len(made) == 0:
		return world.Turn{Text: "The request needs " + p.op + ".", Call: &calls[0]}
	}
	return world.Turn{Call: &calls[len(made)]}
}

// Call implements world.Caller.
func (w *World) Call(t world.Task, done []world.Step, call world.Step) world.Step {
	r := readRequest(t.Question)
	call.Output = "ok"
	switch call.Tool {
	case inventory:
		call.Output = inventoryText(r.service, r.tenant, w.factsOf(r))
	case r.op:
		// The result depends on the calls up to this one. A guard after the operation cannot make it fail, see isLoud.
		p := &plan{op: r.op, service: r.service, values: readPlan(callsText(append(slices.Clone(done), call)))}
		call.Output, call.Failed = w.result(t.ID, p, w.right(t.Question))
	}
	return call
}

// Tools implements world.Caller.
func (w *World) Tools() []string {
	all := []string{inventory}
	for i := range operations {
		all = append(all, operations[i].name)
	}
	for i := range slots {
		if slots[i].isGuard {
			all = append(all, slots[i].name)
		}
	}
	return all
}

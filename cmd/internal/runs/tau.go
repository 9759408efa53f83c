package runs

import (
	"cmp"
	"encoding/hex"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// tauBench parses a run of tau-bench (sierra-research/tau-bench, EnvRunResult). Its name is "<task_id>/<trial>".
func tauBench(v *record) ([]*steps.Run, error) {
	r := tauRun(v, &steps.Conversation{}, "traj")
	info := v.Get("info")
	if v.Get("traj").Len() == 0 { // an exception before the first turn has reward 0, but the agent did not try the task
		v.Note("traj", "is empty, the recorded run stopped with %.200q", info.Text("error"))
	}
	if task := info.Get("task"); task.Kind() == '{' { // each domain numbers its tasks from 0
		r.Task += "/" + hex.EncodeToString(source.Digest(task.Raw())[:4])
	}
	r.Outcome = tauReward(v.Value, sourceTauBench)
	return []*steps.Run{r}, nil
}

// tau2 parses a simulation of tau2-bench. Its tools are called by the agent and, in some domains, also by the simulated user. The agent
// greets first, so the question is the first message of the user after it.
func tau2(v *record) ([]*steps.Run, error) {
	r := tauRun(v, &steps.Conversation{Greets: true}, "messages")
	for m := range v.Get("messages").Elements() {
		u := steps.Usage(0, m.Get("usage"), m.Number("cost"))
		if m.Text("role") == "assistant" && u != (chat.Usage{}) {
			u.Calls = 1
			r.Usage = r.Usage.Add(u)
		}
	}
	if r.Usage.Cost == 0 {
		r.Usage = r.Usage.Add(steps.Usage(0, modelapi.Value{}, v.Number("agent_cost")))
	}
	r.Outcome = tauReward(v.Want('{', "reward_info"), sourceTau2)
	if reason := v.Text("termination_reason"); reason != "" && reason != "user_stop" {
		r.Outcome.Feedback = "termination: " + reason
	}
	r.Started, r.Duration = v.Time("start_time"), steps.ValidDuration(v.Number("duration"))
	r.Model = v.header.Text("info", "agent_info", "llm")
	return []*steps.Run{r}, nil
}

// tauRun parses the conversation in a field of a run, and the names of the run.
func tauRun(v *record, c *steps.Conversation, field string) *steps.Run {
	task, trial := v.ID("task_id"), cmp.Or(v.ID("trial"), "0")
	if task == "" {
		v.Note("task_id", "want a number or a string")
	}
	if !v.Has(field) {
		v.Note(field, "is missing")
	}
	for m := range v.Want('[', field).Elements() {
		m.WantMessage()
		role := m.Text("role")
		if role == "tool" && m.Text("requestor") == "user" { // the result of a call of the simulated user
			continue
		}
		if role == "user" {
			c.Omit(source.UserToolCalls, m.Get("tool_calls").Len())
		}
		c.AddItems(m.Messages(""))
	}
	c.Task = source.Printable(task)
	c.Name = c.Task + "/" + source.Printable(trial)
	return &c.Run
}

// tauReward returns the outcome of a reward. Both benchmarks verify the state of the database after the run: 1 is correct, 0 is wrong.
func tauReward(v modelapi.Value, by string) events.Outcome {
	v.Want('0', "reward")
	out, err := steps.ParseOutcome(v, []string{"reward"}, by, "")
	if err != nil {
		v.Note("reward", "%v", err)
	}
	return out
}

package runs

import (
	"cmp"
	"encoding/hex"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
)

// tauBench parses a run of tau-bench (sierra-research/tau-bench, EnvRunResult). The name of the run is "<task_id>/<trial>".
func tauBench(v *record) ([]*steps.Run, error) {
	r := tauRun(v, &steps.Conversation{}, "traj")
	info := v.Get("info")
	if v.Get("traj").Len() == 0 { // after an exception before the first turn, the reward of 0 says nothing about the agent
		v.Note("traj", "is empty, the recorded run stopped with %.200q", info.Text("error"))
	}
	if task := info.Get("task"); task.Kind() == '{' { // each domain numbers its tasks from 0
		r.Task += "/" + hex.EncodeToString(source.Digest(task.Raw())[:4])
		var want expected
		for call := range task.Get("actions").Elements() {
			want.addCall(call.Text("name"), call.Get("kwargs"), "")
		}
		for output := range task.Get("outputs").Elements() {
			want.addLine("The agent tells the user: " + output.Text())
		}
		r.Target = want.String()
	}
	r.Outcome = tauReward(v.Value, sourceTauBench)
	return []*steps.Run{r}, nil
}

// tau2 parses a simulation of tau2-bench. Its tools are called by the agent and, in some domains, also by the simulated user. The agent
// greets first, so the question is the first message of the user after it.
func tau2(v *record) ([]*steps.Run, error) {
	c := &steps.Conversation{Greets: true}
	environment := v.header.Get("info", "environment_info")
	c.AddSystemPrompt(environment.Text("policy"))
	c.SetTools(environment.Get("tool_defs").Tools())
	r := tauRun(v, c, "messages")
	r.Target = tau2Criteria(v.Get("reward_info"))
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

// expected has the expectations of a benchmark for a run, as text.
type expected struct {
	calls []string
	lines []string // other expectations
}

// addCall adds an expected call with a note about it.
func (x *expected) addCall(name string, arguments modelapi.Value, note string) {
	x.calls = append(x.calls, strings.TrimSpace(name+"("+arguments.TextOrJSON()+") "+note))
}

// addLine adds another expectation, unless it is empty.
func (x *expected) addLine(line string) {
	if line = strings.TrimSpace(line); line != "" {
		x.lines = append(x.lines, line)
	}
}

// String returns the expectations, one on a line.
func (x *expected) String() string {
	calls := "Expected calls: none. The database must not change."
	if len(x.calls) > 0 {
		calls = "Expected calls:\n" + strings.Join(x.calls, "\n")
	}
	return strings.Join(append([]string{calls}, x.lines...), "\n")
}

// maxJustification is the maximum length of the reason why a criterion is not met, in bytes.
const maxJustification = 400

// tau2Criteria returns the criteria of an evaluation, with their results. The tasks in the header of a file may be those of another version of
// the benchmark, so they are not used. The benchmark records no action checks for a task without expected calls.
func tau2Criteria(v modelapi.Value) string {
	hasCriteria := v.Kind("action_checks") == '[' || v.Kind("db_check") == '{'
	if !hasCriteria {
		return ""
	}
	result := func(met modelapi.Value, yes, no string) string { // "" if the result was not recorded
		switch met.Kind() {
		case 't':
			return yes
		case 'f':
			return no
		}
		return ""
	}
	var want expected
	for check := range v.Get("action_checks").Elements() {
		action := check.Get("action")
		want.addCall(action.Text("name"), action.Get("arguments"), result(check.Get("action_match"), "[made]", "[not made]"))
	}
	want.addLine(result(v.Get("db_check", "db_match"), "The database is as expected.", "The database is not as expected: a call is missing, or one too many changed it."))
	for check := range v.Get("nl_assertions").Elements() {
		want.addLine(check.Text("nl_assertion") + " " + result(check.Get("met"), "[met]", "[not met] "+steps.ClipTo(check.Text("justification"), maxJustification)))
	}
	for check := range v.Get("communicate_checks").Elements() {
		want.addLine("The agent tells the user: " + check.Text("info") + " " + result(check.Get("met"), "[met]", "[not met]"))
	}
	for check := range v.Get("env_assertions").Elements() {
		assertion := check.Get("env_assertion")
		want.addLine("Afterwards " + assertion.Text("func_name") + "(" + assertion.Get("arguments").TextOrJSON() + ") holds " + result(check.Get("met"), "[met]", "[not met]"))
	}
	return want.String()
}

// tauRun parses the conversation in a field of a run, and the names of the run.
func tauRun(v *record, c *steps.Conversation, field string) *steps.Run {
	task, trial := v.TextOrNumber("task_id"), cmp.Or(v.TextOrNumber("trial"), "0")
	if task == "" {
		v.Note("task_id", "want a number or a string")
	}
	if !v.HasAll(field) {
		v.Note(field, "is missing")
	}
	for m := range v.Want('[', field).Elements() {
		m.WantMessage()
		role := m.Text("role")
		if role == "tool" && m.Text("requestor") == "user" { // the result of a call of the simulated user
			continue
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

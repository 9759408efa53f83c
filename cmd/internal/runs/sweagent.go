package runs

import (
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/outcome"
)

// sweAgent parses a trajectory file of SWE-agent. The field trajectory has the agent's steps and their durations. The field history has the
// whole conversation with the demonstrations and the task. Some files have only one of the two. The outcome is unknown, because the file does
// not contain a verification of the agent's submission.
func sweAgent(v *record) ([]*steps.Run, error) {
	c := steps.Conversation{Commands: true}
	calls := callsByAction{}
	for m := range v.Want('[', "history").Elements() {
		addHistory(&c, m, calls)
	}
	if trajectory := v.Want('[', "trajectory"); trajectory.Len() > 0 {
		c.Steps = c.Steps[:0] // those of the history: the trajectory has the same steps
		for s := range trajectory.Elements() {
			addStep(&c, s, calls)
		}
	}
	if len(c.Steps) == 0 {
		v.Note("trajectory, history", "no steps")
	}
	info := v.Want('{', "info")
	c.Question, c.Answer = taskStatement(c.Question), wantText(info, "submission")
	c.Outcome = exitOutcome(info)
	stats := info.Get("model_stats")
	c.Usage = steps.Usage(stats.Int("api_calls"), stats, stats.Number("instance_cost"))
	return []*steps.Run{&c.Run}, nil
}

// exitOutcome returns the unknown outcome of a run with the reason why it ended.
func exitOutcome(info modelapi.Value) events.Outcome {
	out := events.Outcome{Label: events.Unknown}
	if status := wantText(info, "exit_status"); status != "" {
		out.Feedback = "exit status: " + status
	}
	return out
}

// wantText returns the text of a member: a string, or a list of parts.
func wantText(v modelapi.Value, key string) string {
	return v.WantContent(key).Content(modelapi.RoleAssistant).Text
}

// addHistory adds a message of the history. The content of an assistant's message is the thought followed by the action.
func addHistory(c *steps.Conversation, m modelapi.Value, calls callsByAction) {
	m.WantMessage()
	action, thought := wantText(m, "action"), wantText(m, "thought")
	if m.IsTrue("is_demo") {
		return
	}
	for _, item := range m.Messages("") {
		if item.Role == modelapi.RoleAssistant {
			calls.add(action, item.Calls)
			if strings.TrimSpace(thought) != "" {
				item.Text = thought
			}
			if call, ok := steps.ParseCommand(action); ok && len(item.Calls) == 0 {
				item.Calls = []modelapi.ToolCall{{Name: call.Tool, Arguments: call.Arguments}}
			}
		}
		c.AddItem(&item, time.Time{})
	}
}

// addStep adds a step of the trajectory.
func addStep(c *steps.Conversation, s modelapi.Value, calls callsByAction) {
	s.WantObject()
	action := wantText(s, "action")
	observation := wantText(s, "observation")
	thought := wantText(s, "thought")
	if strings.TrimSpace(thought) == "" {
		thought = wantText(s, "response")
	}
	step := events.Step{Speaker: "assistant", Text: thought}
	call, acted := steps.ParseCommand(action)
	recorded := calls.take(action, s.Want('[', "tool_calls"))
	if len(recorded) > 0 { // the agent runs one command at a time, so the observation belongs to the first call
		call = events.ToolCall{Tool: recorded[0].Name, Arguments: recorded[0].Arguments}
		acted = true
	}
	if acted {
		c.SetOutput(&call, observation, outcome.OfTool(&call, observation, outcome.Signs{}))
		call.Duration = steps.ValidDuration(s.Number("execution_time"))
		step.Calls = []events.ToolCall{call}
	}
	c.Steps = append(c.Steps, step)
	if !acted && observation != "" {
		c.Steps = append(c.Steps, events.Step{Speaker: "user", Text: observation})
	}
}

// callsByAction maps the actions of a trajectory to the function calls of each action. In most files only the history contains these. The
// list of an action has one element for each time that the agent took it, in order.
type callsByAction map[string][][]modelapi.ToolCall

// add adds the calls of an action.
func (by callsByAction) add(action string, calls []modelapi.ToolCall) {
	if len(calls) > 0 {
		key := strings.TrimSpace(action)
		by[key] = append(by[key], calls)
	}
}

// take returns the calls that a step of the trajectory has recorded. Without any, it removes and returns the next calls of its action.
func (by callsByAction) take(action string, recorded modelapi.Value) (calls []modelapi.ToolCall) {
	for v := range recorded.Elements() {
		if call, ok := v.Call(); ok {
			calls = append(calls, call)
		}
	}
	key := strings.TrimSpace(action)
	if list := by[key]; len(calls) == 0 && len(list) > 0 {
		calls, by[key] = list[0], list[1:]
	}
	return calls
}

// taskStatement returns the task description in SWE-agent's first prompt, without the instructions for the agent. It returns
// a prompt of another form unchanged.
func taskStatement(prompt string) string {
	statement, _, ok := strings.Cut(prompt, "\nINSTRUCTIONS:")
	if !ok {
		return prompt
	}
	if _, after, ok := strings.Cut(statement, "\nISSUE:"); ok {
		statement = after
	}
	return strings.TrimSpace(statement)
}

// miniSWEAgent parses a trajectory file of mini-SWE-agent with messages and info. The list of messages alone is read as OpenAI
// chat. The outcome is unknown, because the file does not contain a verification.
func miniSWEAgent(v *record) ([]*steps.Run, error) {
	runs, err := chatLog(v)
	if err != nil {
		return nil, err
	}
	r := runs[0]
	info := v.Get("info")
	r.Question = miniTask(r.Question)
	if text := info.Text("submission"); text != "" {
		r.Answer = text
	}
	if !r.Outcome.Known() {
		r.Outcome = exitOutcome(info)
	}
	stats := info.Get("model_stats")
	r.Usage = r.Usage.Add(steps.Usage(stats.Int("api_calls"), modelapi.Value{}, stats.Number("instance_cost")))
	if r.Model == "" {
		r.Model = info.Text("config", "model", "model_name")
	}
	if id := source.Printable(v.Text("instance_id")); id != "" {
		r.Name, r.Task = id, id
	}
	return runs, nil
}

// miniTask returns the task in the first prompt of mini-SWE-agent, without the instructions for the agent. It returns a prompt of another
// form unchanged.
func miniTask(prompt string) string {
	if task, ok := strings.CutPrefix(strings.TrimSpace(prompt), "Please solve this issue: "); ok {
		task, _, _ = strings.Cut(task, "\n\nYou can execute bash commands")
		return strings.TrimSpace(task)
	}
	_, rest, begins := strings.Cut(prompt, "<pr_description>")
	task, _, ends := strings.Cut(rest, "</pr_description>")
	if !begins || !ends {
		return prompt
	}
	return strings.TrimSpace(task)
}

package runs

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
)

// atif parses a trajectory in the Agent Trajectory Interchange Format, which Harbor and Terminal-Bench write. The trajectory of
// each sub-agent in it is a separate run. The format has no outcome, but some recorders add one. If one of the runs is invalid, atif returns the
// others and an error.
func atif(v *record) ([]*steps.Run, error) {
	var c steps.Conversation
	c.Session, c.Model = v.Want('"', "session_id").Text(), v.Want('{', "agent").Text("model_name")
	c.SetTools(v.Get("agent", "tool_definitions").Tools())
	number := 0 // of the step, from 1
	for step := range v.Want('[', "steps").Elements() {
		if !step.WantObject() {
			break
		}
		number++
		if step.IsTrue("is_copied_context") { // a step of the trajectory that this one continues: only its question is used
			if step.Text("source") == "user" {
				c.Question = step.Get("message").Content(modelapi.RoleUser).Text
			}
			continue
		}
		c.AddTime(step.Time("timestamp"))
		if metrics := step.Want('{', "metrics"); metrics.IsSet() {
			c.Usage = c.Usage.Add(steps.Usage(1, metrics, metrics.Number("cost_usd")))
		}
		before := len(c.Steps)
		addATIFStep(&c, step)
		if c.Session != "" && len(c.Steps) > before {
			c.Identify(c.Session + "/" + cmp.Or(step.TextOrNumber("step_id"), strconv.Itoa(number)))
		}
	}
	// The sum of the recorder replaces the sum of the steps.
	if final := v.Get("final_metrics"); final.HasAny("total_prompt_tokens", "total_completion_tokens") {
		c.Usage = steps.Usage(c.Usage.Calls, final, final.Number("total_cost_usd"))
	}
	c.ParseTextActions()
	c.ReadOutcome(sourceATIF, v.leadingScore, v.Value, v.Get("extra"))
	runs, err := c.End()
	errs := []error{err}
	for inner := range v.Want('[', "subagent_trajectories").Elements() {
		more, err := atif(&record{Value: inner, leadingScore: v.leadingScore})
		runs = append(runs, more...)
		errs = append(errs, err)
	}
	return runs, errors.Join(errs...)
}

// atifRoles maps the sources of steps to roles.
var atifRoles = map[string]modelapi.Role{"user": modelapi.RoleUser, "agent": modelapi.RoleAssistant, "system": modelapi.RoleSystem}

// addATIFStep adds a step: a message with its calls, and the results of the calls.
func addATIFStep(c *steps.Conversation, step modelapi.Value) {
	speaker := atifRoles[step.Text("source")]
	if speaker == "" {
		step.Note("source", "got %.40q, want system, user or agent", step.Text("source"))
	}
	item := step.WantContent("message").Content(speaker)
	item.Calls = append(item.Calls, step.WantCalls("tool_calls", "function_name")...)
	c.AddItem(&item, step.Time("timestamp"))
	for r := range step.Want('{', "observation").Want('[', "results").Elements() {
		r.WantContent("content")
		result := r.ToolResult()
		hasCall := result.CallID != "" || len(item.Calls) > 0
		switch {
		case hasCall:
			c.AddResult(&result)
		case result.Output != "": // the agent acts in its text; ParseTextActions finds the calls later
			c.AddItem(&modelapi.Item{Role: modelapi.RoleUser, Text: result.Output}, time.Time{})
		}
	}
}

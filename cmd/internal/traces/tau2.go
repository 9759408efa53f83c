package traces

import (
	"encoding/json"
	"fmt"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
)

// tau2Run is a simulation in a results file of tau2-bench. Its tools are called by the agent and, in some domains, also by
// the simulated user.
type tau2Run struct {
	ID     json.RawMessage `json:"id"`
	TaskID json.RawMessage `json:"task_id"`
	Trial  json.RawMessage `json:"trial"`
	Reward *struct {
		Reward *float64 `json:"reward"`
	} `json:"reward_info"`
	Messages    []tau2Message   `json:"messages"`
	Start       json.RawMessage `json:"start_time"`
	Duration    float64         `json:"duration"`
	Termination string          `json:"termination_reason"`
	AgentCost   float64         `json:"agent_cost"`
}

type tau2Message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"id"` // of a tool message: the id of the call
	Requestor string          `json:"requestor"`
	Error     bool            `json:"error"`
	ToolCalls []struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"tool_calls"`
	Usage modelapi.Usage `json:"usage"`
	Cost  float64        `json:"cost"`
}

// tau2 parses a simulation. The agent greets first, so the question is the first message of the user after it.
func tau2(o *source.Object) ([]*steps.Run, error) {
	var r tau2Run
	if err := source.Decode(o.Raw, &r); err != nil {
		return nil, err
	}
	task, err := source.ParseID("task_id", r.TaskID)
	if err != nil {
		return nil, err
	}
	c := steps.Conversation{Greets: true}
	var usage chat.Usage
	for i := range r.Messages {
		m := &r.Messages[i]
		if err := addTau2(&c, m); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.Role == "assistant" && (m.Usage != (modelapi.Usage{}) || m.Cost > 0) {
			usage = usage.Add(chat.Usage{Calls: 1, InputTokens: m.Usage.InputTokens, OutputTokens: m.Usage.OutputTokens, Cost: steps.ValidCost(m.Cost)})
		}
	}
	out, err := c.Run()
	if err != nil {
		return nil, err
	}
	if r.Reward != nil {
		if out.Outcome, err = rewardOutcome(r.Reward.Reward); err != nil {
			return nil, fmt.Errorf("reward_info: %w", err)
		}
		if out.Outcome.Known() {
			out.Outcome.By = sourceTau2
		}
	}
	if r.Termination != "" && r.Termination != "user_stop" {
		out.Outcome.Feedback = "termination: " + r.Termination
	}
	if usage.Cost == 0 {
		usage.Cost = steps.ValidCost(r.AgentCost)
	}
	out.Task, out.Name, out.Usage = task, task, usage
	if trial, err := source.ParseID("trial", r.Trial); err == nil {
		out.Name += "/" + trial
	}
	out.Started, out.Duration = steps.ParseTime(r.Start), steps.ValidDuration(r.Duration)
	out.Model = tau2Model(o.Header)
	return []*steps.Run{out}, nil
}

func addTau2(c *steps.Conversation, m *tau2Message) error {
	content, err := modelapi.ContentText("content", m.Content)
	if err != nil {
		return err
	}
	t := modelapi.Item{Role: modelapi.RoleOf(m.Role), Text: content}
	switch {
	case m.Role == "tool" && m.Requestor == "user":
		return nil // counted with its call
	case m.Role == "tool":
		t.Results = []modelapi.ToolResult{{CallID: m.ID, Output: content, Failed: &m.Error}}
	case m.Role == "user":
		c.Omit(source.UserToolCalls, len(m.ToolCalls))
	case m.Role == "assistant":
		for i, call := range m.ToolCalls {
			if call.Name == "" {
				return fmt.Errorf("tool_calls[%d]: field name: is missing", i)
			}
			t.Calls = append(t.Calls, modelapi.ToolCall{ID: call.ID, Name: call.Name, Arguments: modelapi.ArgumentText(call.Arguments)})
		}
	case m.Role != "system":
		return fmt.Errorf("field role: got %.40q, want user, assistant or tool", m.Role)
	}
	c.AddItem(&t, events.Step{})
	return nil
}

// tau2Model returns the model of the agent from the fields before the simulations.
func tau2Model(header *source.Object) string {
	info := header.Child("info")
	if info == nil {
		return ""
	}
	if agent := info.Child("agent_info"); agent != nil {
		return agent.Text("llm")
	}
	return ""
}

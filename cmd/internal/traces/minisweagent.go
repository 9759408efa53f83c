package traces

import (
	"encoding/json"
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
)

// miniSWEAgent parses a trajectory file of mini-SWE-agent with messages and info. The list of messages alone is read as OpenAI
// chat. The outcome is unknown, because the file does not contain a verification.
func miniSWEAgent(o *source.Object) ([]*steps.Run, error) {
	r, err := chatObject(o)
	if err != nil {
		return nil, err
	}
	info := o.Child("info")
	r.Question = miniTask(r.Question)
	if text := info.Text("submission"); text != "" {
		r.Answer = text
	}
	if status := info.Text("exit_status"); status != "" && !r.Outcome.Known() {
		r.Outcome.Feedback = "exit status: " + status
	}
	var stats struct {
		Stats struct {
			Cost  float64 `json:"instance_cost"`
			Calls float64 `json:"api_calls"`
		} `json:"model_stats"`
		Config struct {
			Model struct {
				Name string `json:"model_name"`
			} `json:"model"`
		} `json:"config"`
	}
	_ = json.Unmarshal(info.Raw, &stats)
	r.Usage.Calls, r.Usage.Cost = steps.ValidCount(stats.Stats.Calls), steps.ValidCost(stats.Stats.Cost)
	if r.Model == "" {
		r.Model = stats.Config.Model.Name
	}
	if id := o.Text("instance_id"); id != "" {
		r.Name, r.Task = source.Printable(id), source.Printable(id)
	}
	return []*steps.Run{r}, nil
}

// miniTask returns the task in the first prompt of mini-SWE-agent, without the instructions for the agent.
func miniTask(prompt string) string {
	task, ok := strings.CutPrefix(strings.TrimSpace(prompt), "Please solve this issue: ")
	if !ok {
		_, inner, begins := strings.Cut(prompt, "<pr_description>")
		inner, _, ends := strings.Cut(inner, "</pr_description>")
		if !begins || !ends {
			return prompt
		}
		return strings.TrimSpace(inner)
	}
	task, _, _ = strings.Cut(task, "\n\nYou can execute bash commands")
	return strings.TrimSpace(task)
}

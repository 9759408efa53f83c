package traces

import (
	"strings"

	"debrief/events"
)

// cheatResult is a line of a Dynamic Cheatsheet results file (suzgunmirac/dynamic-cheatsheet).
type cheatResult struct {
	Input       string `json:"input"`
	Target      string `json:"target"`
	FinalAnswer string `json:"final_answer"`
	FinalOutput string `json:"final_output"`
	Steps       []struct {
		Output string `json:"generator_output"`
	} `json:"steps"`
}

// cheatsheet parses a run of Dynamic Cheatsheet. The outcome is success if answer and target are the same text. The
// recorded cheatsheet is the playbook of another system and is left out.
func cheatsheet(raw []byte) (*run, error) {
	var r cheatResult
	if err := decode(raw, &r); err != nil {
		return nil, err
	}
	e := &events.Execution{Question: r.Input, Answer: r.FinalAnswer, Outcome: events.Outcome{Label: events.Unknown}}
	for _, s := range r.Steps {
		e.Steps = append(e.Steps, events.Step{Speaker: "assistant", Text: s.Output})
	}
	if len(r.Steps) == 0 {
		e.Steps = []events.Step{{Speaker: "assistant", Text: r.FinalOutput}}
	}
	if target := strings.TrimSpace(r.Target); target != "" {
		e.Outcome = events.Outcome{Label: events.Failure, By: sourceDynamicCheatsheet}
		if strings.TrimSpace(r.FinalAnswer) == target {
			e.Outcome = events.Outcome{Score: 1, Label: events.Success, By: sourceDynamicCheatsheet}
		}
	}
	return &run{Execution: e}, nil
}

package traces

import (
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
)

// cheatResult is a line of a Dynamic Cheatsheet results file (suzgunmirac/dynamic-cheatsheet).
type cheatResult struct {
	Input           string `json:"input"`
	RawInput        string `json:"raw_input"`
	Target          string `json:"target"`
	FinalAnswer     string `json:"final_answer"`
	FinalOutput     string `json:"final_output"`
	FinalCheatsheet string `json:"final_cheatsheet"`
	Steps           []struct {
		Output string `json:"generator_output"`
	} `json:"steps"`
}

// cheatsheet parses a run of Dynamic Cheatsheet. The file has no outcome, so the answer is scored as Dynamic
// Cheatsheet does it. The recorded cheatsheet is the playbook of another system and is left out.
func cheatsheet(raw []byte) (*steps.Run, error) {
	var r cheatResult
	if err := source.Decode(raw, &r); err != nil {
		return nil, err
	}
	e := &events.Execution{Question: r.Input, Answer: r.FinalAnswer, Outcome: events.Outcome{Label: events.Unknown}}
	for _, s := range r.Steps {
		e.Steps = append(e.Steps, events.Step{Speaker: "assistant", Text: s.Output})
	}
	if len(r.Steps) == 0 {
		e.Steps = []events.Step{{Speaker: "assistant", Text: r.FinalOutput}}
	}
	out := &steps.Run{Execution: e, Omitted: source.Omissions{}}
	if strings.TrimSpace(r.FinalCheatsheet) != "" {
		out.Omitted.Add(source.References, 1)
	}
	if strings.TrimSpace(r.Target) == "" {
		return out, nil
	}
	out.Omitted.Add(source.References, 1)
	right, scorer := r.score()
	out.Scorer = scorer
	e.Outcome = events.Outcome{Label: events.Failure, By: sourceDynamicCheatsheet}
	if right {
		e.Outcome = events.Outcome{Score: 1, Label: events.Success, By: sourceDynamicCheatsheet}
	}
	return out, nil
}

package generator

import (
	"context"

	"debrief/events"
)

// addRecords adds the records of the Reflector's model to the steps of earlier executions. Records of the agent
// itself stay. A pinned context gets none, because reflections arrive later.
func (cb *ContextBuilder) addRecords(ctx context.Context, req *contextRequest, p *sessionHistory, warns *warnings) {
	if req.pinnedVersion != nil || !p.hasSteps() {
		return
	}
	known, err := cb.windows.Records(ctx, req.book, req.owner, req.session)
	if err != nil {
		warns.add("session: read records: %s", shortError(ctx, err))
	}
	if len(known) == 0 {
		return
	}
	for _, i := range p.window {
		setRecords(i.Steps, known[i.Execution])
	}
	for k := range p.marks {
		setRecords(p.marks[k].Interaction.Steps, known[p.marks[k].Interaction.Execution])
	}
}

// hasSteps reports whether any execution has steps, which can have records.
func (p *sessionHistory) hasSteps() bool {
	for _, i := range p.window {
		if len(i.Steps) > 0 {
			return true
		}
	}
	for k := range p.marks {
		if len(p.marks[k].Interaction.Steps) > 0 {
			return true
		}
	}
	return false
}

// setRecords sets the records of steps. Both slices end at the last step of an execution, so it counts from the end.
func setRecords(steps []events.Step, records []events.Record) {
	for n := 1; n <= min(len(steps), len(records)); n++ {
		s, r := &steps[len(steps)-n], &records[len(records)-n]
		if s.Record == nil && (r.Synthesis != "" || r.Progress != "" || len(r.Calls) > 0) {
			s.Record = r
		}
	}
}

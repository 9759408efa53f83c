package generator

import (
	"context"
	"slices"
	"strings"

	"debrief/events"
	"debrief/generator/prompt/assembly"
	"debrief/playbook/admit"
)

// readRecords reads the notes with the records that a model made of the steps of earlier executions. A context with a pinned version gets
// none, because their number changes over time.
func (cb *ContextBuilder) readRecords(ctx context.Context, req *contextRequest, history *sessionHistory, warns *warnings) {
	if req.pinnedVersion != nil || !history.hasSteps() {
		return
	}
	var err error
	history.records, err = cb.windows.RecordNotes(ctx, req.book, req.owner, req.session)
	if err != nil {
		warns.add("session: read records: %s", shortError(ctx, err))
	}
}

// admitRecords adds the records that a context may contain to the steps of the session. Records are texts of a reflection, so they are added only if the
// reflection may be shown. Steps without records get records that are computed without a model, see package conversation. Records of the agent
// itself stay.
func (cb *ContextBuilder) admitRecords(req *contextRequest, ix *playbookIndex, in *assembly.Input, notes []*events.Note) {
	p := &notePolicy{ix: ix, cb: cb, req: req}
	admitted := map[events.Handle][]events.Record{} // by execution
	for _, n := range notes {
		if facts := p.facts(n, admit.UseSession); cb.admit(facts).Shown() {
			admitted[n.Execution] = p.withoutOrders(n.Records, facts)
		}
	}
	for _, i := range in.Window {
		setRecords(i.Steps, admitted[i.Execution])
	}
	for k := range in.Marks {
		setRecords(in.Marks[k].Interaction.Steps, admitted[in.Marks[k].Interaction.Execution])
	}
}

// withoutOrders returns records without the calls and sentences that look like orders to models.
func (p *notePolicy) withoutOrders(records []events.Record, facts admit.Text) []events.Record {
	admitted := func(texts ...string) bool {
		facts.Suspect = p.cb.isSuspect(strings.Join(texts, "\n"))
		return p.cb.admit(facts).Shown()
	}
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		if !admitted(r.Synthesis) {
			r.Synthesis = ""
		}
		r.Calls = slices.Clone(r.Calls)
		for k := range r.Calls {
			c := &r.Calls[k]
			if !admitted(slices.Concat([]string{c.Line, c.Insights, c.Learning}, c.Next)...) {
				*c = events.CallRecord{} // not removed: calls and their records are parallel
			}
		}
	}
	return records
}

// hasSteps reports whether any execution has steps, which can have records.
func (h *sessionHistory) hasSteps() bool {
	return slices.ContainsFunc(h.window, func(i *events.Interaction) bool { return len(i.Steps) > 0 }) ||
		slices.ContainsFunc(h.marks, func(m events.MarkedInteraction) bool { return len(m.Interaction.Steps) > 0 })
}

// setRecords sets the records of steps that have none. Both slices end at the last step of an execution, and records may have fewer
// elements, so setRecords counts from the end.
func setRecords(steps []events.Step, records []events.Record) {
	for n := 1; n <= min(len(steps), len(records)); n++ {
		s, r := &steps[len(steps)-n], &records[len(records)-n]
		isEmpty := r.Synthesis == "" && r.Progress == "" && len(r.Calls) == 0
		if s.Record == nil && !isEmpty {
			s.Record = r
		}
	}
}

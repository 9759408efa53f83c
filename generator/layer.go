package generator

import (
	"context"

	"debrief/events"
)

// layer puts what a Reflector's model saw in the steps of a session's executions where nothing better stands: what the
// agent itself wrote down stays. A measurement goes without: reflections come later.
func (d *Desk) layer(ctx context.Context, o *order, p *past, missed *remarks) {
	if o.version != nil || !p.stepped() {
		return
	}
	known, err := d.windows.Records(ctx, o.book, o.session)
	if err != nil {
		missed.add("session: its records: %s", brief(ctx, err))
	}
	if len(known) == 0 {
		return
	}
	for _, i := range p.window {
		layerOn(i.Steps, known[i.Execution])
	}
	for k := range p.marks {
		layerOn(p.marks[k].Interaction.Steps, known[p.marks[k].Interaction.Execution])
	}
}

// stepped reports whether there is a step in it that a record could be of.
func (p *past) stepped() bool {
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

// layerOn gives steps their records. Both are the last of an execution, so they are counted from the end.
func layerOn(steps []events.Step, records []events.Record) {
	for n := 1; n <= min(len(steps), len(records)); n++ {
		s, r := &steps[len(steps)-n], &records[len(records)-n]
		if s.Record == nil && (r.Synthesis != "" || r.Progress != "" || len(r.Calls) > 0) {
			s.Record = r
		}
	}
}

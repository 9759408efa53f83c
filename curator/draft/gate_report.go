package draft

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/curator/gate"
	"debrief/playbook"
)

// GateReport is a report on the gate's experiments in one playbook.
type GateReport struct {
	// Tested lists the bullets on probation, then the bullets that are shown to all tasks. In each group the bullet with
	// the most outcomes comes first.
	Tested []BulletReport
	// Waiting lists the candidates in the order in which they will go on probation.
	Waiting []BulletReport
}

// BulletReport is a bullet with the state of its experiment.
type BulletReport struct {
	*playbook.Bullet
	Lift gate.Lift
	// NextStep describes the gate's next step for the bullet on the present evidence, without a final period.
	NextStep string
}

// ReportGate returns the report on p with the gate configuration cfg. If the gate is not on, the report describes the steps that
// it would take if it were on.
func ReportGate(p *playbook.Playbook, cfg gate.Config) GateReport {
	d := newDraft(p, Policy{Gate: cfg})
	q := d.queue()
	var out GateReport
	for b := range d.all() {
		if b.Shown() || b.Status == playbook.Probation {
			k := b.CurrentExperiment()
			out.Tested = append(out.Tested, BulletReport{b, d.Gate.Lift(&k), q.next(b, &k)})
		}
	}
	slices.SortFunc(out.Tested, func(a, b BulletReport) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(outcomes(b), outcomes(a)), cmp.Compare(a.ID, b.ID))
	})
	free := d.Gate.Slots - len(q.trying)
	for _, b := range q.waitingByRank() {
		k := b.CurrentExperiment()
		next := "waits for a free slot"
		switch h := q.incumbent(b); {
		case h != nil && h.Shown():
			next = fmt.Sprintf("waits while %s is shown to all", h.ID)
		case h != nil:
			next = fmt.Sprintf("waits until it has more requests than %s, or until the experiment on %[1]s ends", h.ID)
		case free > 0:
			next = "will go on probation"
			free--
		}
		out.Waiting = append(out.Waiting, BulletReport{b, d.Gate.Lift(&k), next})
	}
	return out
}

// rank orders bullets on probation before all others.
func rank(p BulletReport) int {
	if p.Status == playbook.Probation {
		return 0
	}
	return 1
}

func outcomes(p BulletReport) int {
	k := p.CurrentExperiment()
	return k.Shown.Count() + k.Withheld.Count() + k.Open.Count()
}

// next returns the value of Prospect.NextStep for a bullet that is shown or on probation.
func (q *queue) next(b *playbook.Bullet, k *playbook.Experiment) string {
	if b.Status == playbook.Probation {
		switch v, why := q.Gate.Evaluate(k); {
		case b.Pinned || v == gate.Promote:
			return "will be shown to all"
		case v != gate.Undecided:
			return "will retire: " + why
		}
		return fmt.Sprintf("experiment continues, at most %d more outcomes", max(0, q.Gate.MaxOutcomes-k.Shown.Count()-k.Withheld.Count()))
	}
	_, why := recheckReason(b)
	switch {
	case why != "" && keptByPerson(b):
		return "stays by a person's decision: " + why
	case why != "":
		return "will be tried again: " + why
	case keptByPerson(b):
		return "stays by a person's decision"
	}
	return "stays"
}

package gate

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/playbook"
)

// Report is a report on the gate's experiments in one playbook.
type Report struct {
	// Tested lists the bullets on probation, then the bullets that are shown to all tasks. In each group the bullet with
	// the most outcomes comes first.
	Tested []BulletReport
	// Waiting lists the candidates in the order in which they will go on probation.
	Waiting []BulletReport
}

// BulletReport is a bullet with the state of its experiment.
type BulletReport struct {
	*playbook.Bullet
	Lift Lift
	// NextStep describes the gate's next step for the bullet on the present evidence, without a final period.
	NextStep string
}

// NewReport returns the report on p with the configuration cfg. If the gate is not on, the report describes the steps that it
// would take if it were on.
func NewReport(p *playbook.Playbook, cfg Config) Report {
	supported := func(b *playbook.Bullet) bool { return IsSupported(b, p.ByRule(b.Rule.Base)) }
	q := NewQueue(cfg, p, supported, nil)
	var out Report
	for b := range p.All() {
		if b.Shown() || b.Status == playbook.Probation {
			k := b.CurrentExperiment()
			out.Tested = append(out.Tested, BulletReport{b, q.cfg.Lift(&k), q.next(b, &k)})
		}
	}
	slices.SortFunc(out.Tested, func(a, b BulletReport) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(outcomes(b), outcomes(a)), cmp.Compare(a.ID, b.ID))
	})
	free := q.cfg.Slots - len(q.trying)
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
		out.Waiting = append(out.Waiting, BulletReport{b, q.cfg.Lift(&k), next})
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

// next returns the value of BulletReport.NextStep for a bullet that is shown or on probation.
func (q *Queue) next(b *playbook.Bullet, k *playbook.Experiment) string {
	if b.Status == playbook.Probation {
		switch v, why := q.cfg.Evaluate(k); {
		case b.Pinned || v == Promote:
			return "will be shown to all"
		case v != Undecided:
			return "will retire: " + why
		}
		return fmt.Sprintf("experiment continues, at most %d more outcomes", max(0, q.cfg.MaxOutcomes-k.Shown.Count()-k.Withheld.Count()))
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

package gate

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/playbook"
)

// Report is a report on the records of one playbook's bullets.
type Report struct {
	// Tested lists the bullets on probation, then the suspect, new and other bullets that are shown. In each group the bullet
	// with the most outcomes comes first.
	Tested []BulletReport
	// Waiting lists the candidates, the one with the most confirmations first.
	Waiting []BulletReport
}

// BulletReport is a bullet with the state of its record.
type BulletReport struct {
	*playbook.Bullet
	Lift Lift
	// NextStep describes the gate's next step for the bullet on the present evidence, without a final period.
	NextStep string
}

// NewReport returns the report on p with the configuration cfg. If the gate is off, the report describes the decisions that a gate would make.
func NewReport(p *playbook.Playbook, cfg Config) Report {
	cfg = cfg.WithDefaults()
	var out Report
	for b := range p.All() {
		e := b.CurrentExperiment()
		r := BulletReport{b, cfg.Lift(&e), ""}
		switch {
		case b.Shown() || b.Status == playbook.Probation:
			r.NextStep = cfg.nextStep(b, p.Tally().Typical())
			out.Tested = append(out.Tested, r)
		case b.Status == playbook.Candidate && b.Rule == nil:
			r.NextStep = "waits for a confirmation by another execution"
			if against := cmp.Or(b.Replaces, b.Contests); against != "" {
				r.NextStep = fmt.Sprintf("waits for a confirmation, or until outcomes of %s become worse", against)
			}
			out.Waiting = append(out.Waiting, r)
		}
	}
	slices.SortFunc(out.Tested, func(a, b BulletReport) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(outcomes(b), outcomes(a)), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(out.Waiting, func(a, b BulletReport) int { return compareWaiting(a.Bullet, b.Bullet) })
	return out
}

// rank orders bullets by how far they are from a good record.
func rank(r BulletReport) int {
	switch s := r.CurrentExperiment().Standing; {
	case r.Status == playbook.Probation:
		return 0
	case s == playbook.StandingSuspect:
		return 1
	case s == playbook.StandingNew:
		return 2
	}
	return 3
}

func outcomes(r BulletReport) int {
	e := r.CurrentExperiment()
	return e.Outcomes()
}

// nextStep returns the value of BulletReport.NextStep for a bullet that is shown or on probation.
func (c Config) nextStep(b *playbook.Bullet, typical float64) string {
	a := c.Assess(b, typical)
	switch {
	case IsKept(b):
		return "stays by a person's decision"
	case b.Rule != nil:
		return "follows the counts of its rule"
	case a.Retire:
		return "will retire: " + a.Reason
	case a.Standing != "":
		return fmt.Sprintf("becomes %s: %s", a.Standing, a.Reason)
	case b.Status == playbook.Probation:
		e := b.CurrentExperiment()
		return fmt.Sprintf("experiment continues, at most %d more outcomes", max(0, c.MaxOutcomes-e.Shown.Count()-e.Withheld.Count()))
	}
	return "stays"
}

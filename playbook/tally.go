package playbook

import "math"

// Tally sums the outcomes of a playbook.
type Tally struct {
	Cited int // number of outcomes of tasks that cited a shown bullet
	Sum   int // sum of the scores of these outcomes, in tenths
	// Few and FewSum are the same with at most fewOutcomes of each bullet, and the sum of scores in units of a thousandth. Integers have no rounding
	// errors, so the sums do not depend on the order of changes.
	Few, FewSum int
	Plain       Plain // outcomes of tasks that cited no bullet
	// Verdicts describes the newest outcomes of all tasks.
	Verdicts Verdicts
}

// Plain counts the reported outcomes of tasks that cited no bullet, and sums their scores. If feedback corrects an outcome, both count.
type Plain struct {
	Count int     `msgpack:"n,omitempty"`
	Sum   float64 `msgpack:"s,omitempty"`
}

// Tally returns the sums.
func (p *Playbook) Tally() Tally { return p.tally }

// SetPlain sets the outcomes of tasks that cited no bullet, for a playbook restored from a view.
func (p *Playbook) SetPlain(o Plain) { p.tally.Plain = o }

// SetVerdicts sets the newest outcomes, for a playbook restored from a view.
func (p *Playbook) SetVerdicts(v Verdicts) { p.tally.Verdicts = v }

// Typical is the typical result of the tasks that do not cite a bullet. The gate compares the record of the bullet with it.
type Typical struct {
	Rate     float64 // mean score, from 0 to 1: over outcomes, or over bullets; see Tally.without
	Outcomes float64 // number of outcomes behind Rate
	// Shares of the newest verdicts "failure" and "success" that are false. Both are 0 if the error of the judge is unknown.
	FalseFailures, FalseSuccesses float64
}

const (
	fewOutcomes = 4    // maximum number of outcomes of each bullet in the mean over bullets, see Tally.without
	minFew      = 40   // least number of outcomes behind that mean: those of at least ten bullets
	fewUnit     = 1000 // for a score of 1 in Tally.FewSum
)

// maxPlain is the maximum weight of the tasks that cite no bullet, in outcomes. It is small, because tasks that cite other bullets are the better
// comparison: they are of the kinds that bullets are for.
const maxPlain = 10

// Typical returns the typical result of the tasks that do not cite the bullet.
func (p *Playbook) Typical(id BulletID) Typical {
	t := p.tally.without(p.Bullet(id))
	t.FalseFailures, t.FalseSuccesses = p.falseShares()
	return t
}

// without returns the mean score of the tasks that cite another shown bullet than b. If at least ten bullets have outcomes, it is not below the
// mean over bullets, in which each has nearly the same weight. If outcomes come late, a few wrong bullets are cited in many tasks before the
// first outcome arrives. Most outcomes are then their failures, and compared with the mean over outcomes they would look normal.
//
// With few such tasks, the result is near a prior:
//
//   - It is the mean score of the tasks that cite no bullet, if this is above a half. Tasks then succeed without advice. If the tasks of a first
//     bullet fail, the bullet is the likely cause.
//   - Otherwise it is a half. If tasks that cite no bullet fail, this says nothing about b, because they lack advice.
func (t Tally) without(b *Bullet) Typical {
	t.countBullet(b, -1)                                                    // t is a copy
	prior, plain := 0.5, 0.0                                                // plain is the number of outcomes behind prior
	if rate := (t.Plain.Sum + 1) / float64(t.Plain.Count+2); rate > prior { // by the rule of succession, see estimate
		prior, plain = rate, min(float64(t.Plain.Count), maxPlain)
	}
	weight := plain + 2 // without outcomes behind it, the prior counts as two outcomes
	typical := Typical{Rate: (float64(t.Sum)/MaxScore + weight*prior) / (float64(t.Cited) + weight), Outcomes: float64(t.Cited) + plain}
	overBullets := (float64(t.FewSum)/fewUnit + weight*prior) / (float64(t.Few) + weight)
	if t.Few >= minFew && overBullets > typical.Rate {
		typical.Rate, typical.Outcomes = overBullets, float64(t.Few)+plain
	}
	return typical
}

// countBullet adds the cited outcomes of a shown bullet, or subtracts them if sign is -1. A nil bullet counts nothing.
func (t *Tally) countBullet(b *Bullet, sign int) {
	if b == nil || b.Experiment == nil || !b.Shown() {
		return
	}
	cited := &b.Experiment.Cited
	t.Cited += sign * cited.Count()
	t.Sum += sign * cited.Sum()
	few := sign * min(cited.Count(), fewOutcomes)
	t.Few += few
	t.FewSum += few * int(math.Round(fewUnit*cited.Mean()))
}

// countTasks adds the outcomes of the tasks of a change to Verdicts, and those of tasks that cite no bullet to Plain. It leaves out the
// control group. d is the last delta of the change and has the covers, one for each task; parts are all deltas of the change. judge is
// the name of the measured judge.
func (t *Tally) countTasks(d *Delta, parts []*Delta, judge string) {
	cites := make(map[int]bool) // indices of the covers whose task cites a bullet
	for _, part := range parts {
		for i := range part.Ops {
			op := &part.Ops[i]
			for k := range op.Exposures { // parallel to op.Support
				if op.Exposures[k].Cited && k < len(op.Support) {
					cites[op.Support[k]] = true
				}
			}
		}
	}
	for i := range d.Covers {
		e := d.Covers[i].Evidence
		hasOutcome := e != nil && !e.Inferred && e.Outcome != "" && e.Outcome != "unknown"
		if !hasOutcome || e.Control {
			continue
		}
		t.Verdicts.add(e, judge)
		if !cites[i] {
			t.Plain.Count++
			t.Plain.Sum += e.Score
		}
	}
}

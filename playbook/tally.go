package playbook

// Tally sums the outcomes of a playbook.
type Tally struct {
	Cited int // outcomes of tasks that cited a shown bullet
	Sum   int // sum of the scores of these outcomes, in tenths
	Plain Plain
	// Verdicts describes the newest outcomes of all tasks.
	Verdicts Verdicts
}

// Plain counts the reported outcomes of tasks that cited no bullet, and sums their scores. A corrected outcome counts as one more.
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

// Typical is the mean score that tasks reach apart from one bullet, from 0 to 1, and the number of outcomes that it rests on.
type Typical struct {
	Rate     float64
	Outcomes float64
	// FalseFailures and FalseSuccesses are the shares of the newest verdicts of that kind that are false, 0 if the error is unknown.
	FalseFailures, FalseSuccesses float64
}

// maxPlain is the largest weight of the tasks that cite no bullet, in outcomes. Later the tasks that cite other bullets say more about a
// bullet, because they are of the kinds that bullets are for.
const maxPlain = 10

// Typical returns what tasks reach apart from a bullet.
func (p *Playbook) Typical(id BulletID) Typical {
	t := p.tally.without(p.Bullet(id))
	t.FalseFailures, t.FalseSuccesses = p.falseShares()
	return t
}

// without returns the mean score of tasks that cite another shown bullet. With few outcomes it is near a half. If most tasks without a
// citation succeed, it is near their mean score instead: then a first bullet whose tasks fail is the likely cause. That most of them fail
// says nothing, because a playbook begins with tasks that fail for want of advice.
func (t Tally) without(b *Bullet) Typical {
	t.count(b, -1)
	prior, plain := 0.5, 0.0
	if rate := (t.Plain.Sum + 1) / float64(t.Plain.Count+2); rate > prior {
		prior, plain = rate, min(float64(t.Plain.Count), maxPlain)
	}
	weight := plain + 2
	return Typical{
		Rate:     (float64(t.Sum)/MaxScore + weight*prior) / (float64(t.Cited) + weight),
		Outcomes: float64(t.Cited) + plain,
	}
}

// count adds the record of a bullet, or subtracts it if sign is -1. A nil bullet counts nothing.
func (t *Tally) count(b *Bullet, sign int) {
	if b == nil || b.Experiment == nil {
		return
	}
	e := b.Experiment
	if b.Shown() {
		t.Cited += sign * e.Cited.Count()
		t.Sum += sign * e.Cited.Sum()
	}
}

// countPlain adds the outcomes of the tasks, without those of the control group: all of them to the verdicts, and those of tasks that cite
// no bullet to Plain. d is the last delta of a change and has its covers, one for each task; parts are all deltas of the change. judge is
// the name of the measured judge.
func (t *Tally) countPlain(d *Delta, parts []*Delta, judge string) {
	cites := make(map[int]bool) // covers
	for _, part := range parts {
		for i := range part.Ops {
			op := &part.Ops[i]
			for k := range op.Exposures {
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

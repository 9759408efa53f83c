package selection

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"

	"debrief/events"
	"debrief/playbook"
)

// Trials are the inputs of experiments.
type Trials struct {
	// Applicability returns how applicable a bullet is to the query, from 0 to 1. It must not depend on an answer or on
	// randomness.
	Applicability func(*playbook.Bullet) float64
	// Book and Task seed the random assignment, so the same task always gets the same arms.
	Book playbook.Book
	Task string
}

// MinApplicability is the minimum applicability. With recall.Coverage on invoices of the simulated desk, the applicable ones
// of its 21 rules are found with precision 1.00 and recall 1.00. With twelve rules it is 0.92 and 0.97, with six 0.60
// and 0.91, with one 0.46 and 1.00, because a rule without neighbours cannot be distinguished yet. Outcomes of
// unrelated tasks make an experiment longer, but not wrong. With a minimum of 0.65 the precision for twelve rules is
// 0.52. With 0.80 single rules are missed in more than half of the cases, and a bullet that is never applicable is
// never evaluated.
const MinApplicability = 0.7

// MaxTrials is the maximum number of experiments in one context.
const MaxTrials = 16

// excludeProbation excludes bullets on probation: all of them if experiments are disabled, else those that are not
// applicable to the query, and those with the lowest applicability beyond MaxTrials. Pinned bullets stay.
func (c *selector) excludeProbation() {
	x := c.x
	c.excluded = 0
	if len(x.lists[probationRows]) == 0 {
		return
	}
	var in []trialCandidate
	for _, at := range x.lists[probationRows] {
		r := &x.rows[at]
		if r.is(pinnedRows) {
			continue
		}
		c.decisions[at] = onProbation
		c.excluded++
		if c.o.Trials == nil {
			continue
		}
		c.decisions[at] = notApplicable
		if applicability := c.o.Trials.Applicability(r.bullet); applicability >= MinApplicability {
			in = append(in, trialCandidate{at, true, applicability})
		}
	}
	c.sortTrials(in)
	for _, h := range in[:min(len(in), MaxTrials)] {
		delete(c.decisions, h.row)
		c.onTrial = append(c.onTrial, h.row)
		c.excluded--
	}
}

// selectable reports whether a bullet can be chosen.
func (c *selector) selectable(at int32) bool {
	return c.excluded == 0 || c.decisions[at] != onProbation && c.decisions[at] != notApplicable
}

// trialCandidate is a bullet that is applicable to the query.
type trialCandidate struct {
	row           int32
	randomised    bool // the arm is assigned at random
	applicability float64
}

// sortTrials sorts randomised candidates first, then by applicability, then by id.
func (c *selector) sortTrials(list []trialCandidate) {
	slices.SortFunc(list, func(a, b trialCandidate) int {
		if a.randomised != b.randomised {
			if a.randomised {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.applicability, a.applicability), cmp.Compare(c.x.rows[a.row].bullet.ID, c.x.rows[b.row].bullet.ID))
	})
}

// assignTrials returns the experiments of the chosen bullets and assigns the arms of those on probation.
func (c *selector) assignTrials() []events.Exposure {
	t := c.o.Trials
	if t == nil || c.x.gate == playbook.GateOff {
		return nil
	}
	var list []trialCandidate
	for _, at := range c.chosen {
		r := &c.x.rows[at]
		if applicability := t.Applicability(r.bullet); applicability >= MinApplicability {
			list = append(list, trialCandidate{at, r.is(probationRows) && !r.is(pinnedRows), applicability})
		}
	}
	c.sortTrials(list)
	var all []events.Exposure
	for _, h := range list[:min(len(list), MaxTrials)] {
		b := c.x.rows[h.row].bullet
		of := b.CurrentExperiment()
		trial := events.Exposure{Bullet: b.ID, Experiment: of.Number, Arm: playbook.ArmOpen}
		if h.randomised {
			if trial.Arm = playbook.ArmShown; t.draw(b.ID, of.Number) >= of.Share {
				trial.Arm = playbook.ArmWithheld
				c.decisions[h.row] = withheld
			}
		}
		all = append(all, trial)
	}
	return all
}

// draw returns a pseudo-random number from 0 to 99. It is the same for the same bullet, case and task, and
// independent of any other.
func (t *Trials) draw(id playbook.BulletID, number int) int {
	var buf []byte
	for _, s := range [...]string{"exposure", string(t.Book), string(id), t.Task} {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	sum := sha256.Sum256(binary.AppendVarint(buf, int64(number)))
	percent, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), 100)
	return int(percent)
}

package selection

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strconv"

	"debrief/events"
	"debrief/playbook"
)

// Draw describes the experiments of one task.
//
// If the playbook has bullets on probation, a random half of all tasks shows them, and the other half shows none. They are
// shown or withheld together, because an answer may need several of them. Otherwise an experiment has one bullet. Whether a
// task is used for it, and with which bullet, is decided before the arm and does not depend on it.
type Draw struct {
	// Applicable returns the bullets that apply to the task, each once, by a prediction that does not depend on the arm. It is
	// called at most once, and only if a bullet of the playbook could be in an experiment. A wrong prediction makes an experiment
	// longer, but not wrong.
	Applicable func() []playbook.BulletID
	// Task seeds the draw, so the same task gets the same bullet and arm, also in another book with the same bullets.
	Task string
}

// shareOf returns the percentage of the tasks that are used for an experiment with a bullet.
func shareOf(b *playbook.Bullet) int {
	switch {
	case b.Pinned:
		return 0
	case b.Status == playbook.Probation:
		return 100
	}
	e := b.CurrentExperiment()
	return e.Standing.ExperimentShare()
}

// countShare adds n to the number of rows with a share.
func (x *Index) countShare(share, n int) {
	if share > 0 {
		if x.shares[share] += n; x.shares[share] == 0 {
			delete(x.shares, share)
		}
	}
}

// draw chooses the bullets of the experiment and its arm. Without experiments it excludes the bullets on probation.
func (c *selector) draw() {
	x := c.x
	isOn := c.o.Draw != nil && x.gate != playbook.GateOff
	switch probation := x.lists[probationRows]; {
	case len(probation) > 0 && isOn:
		c.drawn = append(c.drawn, probation...)
		c.arm = c.o.Draw.arm("probation")
	case isOn:
		if at := c.o.Draw.bullet(x); at >= 0 {
			b := x.rows[at].bullet
			c.drawn = append(c.drawn, at)
			c.arm = c.o.Draw.arm(string(b.ID), strconv.Itoa(b.CurrentExperiment().Number))
		}
	default:
		for _, at := range probation {
			if !x.rows[at].is(pinnedRows) {
				c.decisions[at] = onProbation
				c.excluded++
			}
		}
	}
}

// bullet returns the row of the bullet for an experiment with the task, or -1. A suspect bullet goes first.
func (d *Draw) bullet(x *Index) int32 {
	level, possible := d.percent("level"), false
	for share := range x.shares {
		possible = possible || share > level
	}
	if !possible {
		return -1
	}
	best, most := int32(-1), 0
	for _, id := range d.Applicable() {
		at, known := x.rowOf[id]
		if !known || x.rows[at].share <= level {
			continue
		}
		rank := d.percent("choice", string(id))
		if x.rows[at].share == 100 {
			rank += 100
		}
		if best < 0 || rank > most {
			best, most = at, rank
		}
	}
	return best
}

// withhold applies the arm to the chosen bullets of the experiment and returns their exposures. Bullets on probation that do
// not apply to the task have no exposure.
func (c *selector) withhold() (exposures []events.Exposure) {
	if len(c.drawn) == 0 {
		return nil
	}
	applicable := c.drawn
	if c.x.rows[c.drawn[0]].is(probationRows) {
		applicable = nil
		for _, id := range c.o.Draw.Applicable() {
			if at, known := c.x.rowOf[id]; known && c.x.rows[at].is(probationRows) {
				applicable = append(applicable, at)
			}
		}
	}
	for _, at := range applicable {
		if c.isVaried(at) && len(exposures) < events.MaxExposures {
			b := c.x.rows[at].bullet
			exposures = append(exposures, events.Exposure{Bullet: b.ID, Experiment: b.CurrentExperiment().Number, Arm: c.arm})
		}
	}
	for _, at := range c.drawn {
		if c.arm == playbook.ArmWithheld && c.isVaried(at) {
			c.decisions[at] = withheld
		}
	}
	return exposures
}

// isVaried reports whether the arm decides if a drawn bullet is shown. Pinned bullets are always shown, and bullets beyond the
// budget never.
func (c *selector) isVaried(at int32) bool {
	return c.decisions[at] == shown && !c.x.rows[at].is(pinnedRows)
}

// arm draws the arm of an experiment.
func (d *Draw) arm(experiment ...string) playbook.Arm {
	if d.percent(append([]string{"arm"}, experiment...)...) < 50 {
		return playbook.ArmWithheld
	}
	return playbook.ArmShown
}

// percent returns a pseudo-random number from 0 to 99. It is the same for the same task and purpose, and independent of any
// other.
func (d *Draw) percent(purpose ...string) int {
	var buf []byte
	for _, s := range append([]string{d.Task}, purpose...) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	sum := sha256.Sum256(buf)
	n, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), 100)
	return int(n)
}

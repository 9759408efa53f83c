package selection

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strconv"

	"debrief/events"
	"debrief/playbook"
)

// Draw describes the experiment of one task. An experiment has one bullet. Whether the task is used for an experiment, and with which bullet,
// is decided before the arm and does not depend on it.
//
// Bullets on probation are shown only in a random half of the tasks. It is the same half for all of them, because an answer may need several.
// In that half they take part in experiments like all others. One that replaces another bullet is shown in place of it.
type Draw struct {
	// Applicable returns the bullets that apply to the task, each once, by a prediction that does not depend on the arm. It is
	// called at most once, and only if a bullet of the playbook could be in an experiment. With a wrong prediction an experiment needs more
	// tasks, but its result stays right.
	Applicable func() []playbook.BulletID
	// Task seeds the draw, so the same task gets the same bullet and arm, also in another book with the same bullets.
	Task string
}

// shareOf returns the percentage of the tasks that are used for an experiment with a bullet, see Standing.ExperimentShare.
func shareOf(b *playbook.Bullet) int {
	if b.Pinned {
		return 0
	}
	e := b.CurrentExperiment()
	return e.Standing.ExperimentShare()
}

// countShare adds n to the number of rows with a share above 0.
func (x *Index) countShare(share, n int) {
	if share > 0 {
		x.shares[share] += n
		if x.shares[share] == 0 {
			delete(x.shares, share)
		}
	}
}

// draw excludes the bullets on probation if the task is not of their half, and chooses the bullet of the experiment with its arm.
func (c *selector) draw() {
	x, d := c.x, c.o.Draw
	hasDraw := d != nil && x.gate != playbook.GateOff
	probation := x.lists[probationRows]
	usesProbation := hasDraw && len(probation) > 0 && d.percent("probation") < 50
	if !usesProbation {
		for _, row := range probation {
			if !x.rows[row].is(pinnedRows) {
				c.exclude(row, onProbation)
			}
		}
	}
	if hasDraw {
		c.drawn = d.bullet(c)
		if c.drawn >= 0 {
			b := x.rows[c.drawn].bullet
			c.arm = d.arm(string(b.ID), strconv.Itoa(b.CurrentExperiment().Number))
		}
	}
	if usesProbation {
		c.excludeReplaced()
	}
}

// excludeReplaced excludes the bullets that a bullet on probation replaces. A replaced bullet stays if it is itself in the experiment.
// It also stays if the experiment withholds the bullet on probation: the two are then compared.
func (c *selector) excludeReplaced() {
	for _, row := range c.x.lists[probationRows] {
		old, known := c.x.rowOf[c.x.rows[row].bullet.Replaces]
		if !known || shareOf(c.x.rows[old].bullet) == 0 { // a bullet that takes part in no experiment, such as a pinned one, stays
			continue
		}
		isWithheld := row == c.drawn && c.arm == playbook.ArmWithheld
		if old != c.drawn && !isWithheld {
			c.exclude(old, replaced)
		}
	}
}

// exclude excludes a row from the choice.
func (c *selector) exclude(row int32, why decision) {
	if c.decisions[row] == undecided {
		c.decide(row, why)
		c.excluded++
	}
}

// bullet returns the row of the bullet for an experiment with the task, or -1. A suspect bullet goes first.
func (d *Draw) bullet(c *selector) int32 {
	x := c.x
	level := d.percent("level") // this task is used for a bullet only if the share of the bullet is larger
	isPossible := false
	for share := range x.shares {
		isPossible = isPossible || share > level
	}
	if !isPossible {
		return -1
	}
	best, highest := int32(-1), 0
	for _, id := range d.Applicable() {
		row, known := x.rowOf[id]
		if !known || x.rows[row].share <= level || !c.selectable(row) {
			continue
		}
		rank := d.percent("choice", string(id))
		if x.rows[row].share == 100 { // only a suspect bullet has this share
			rank += 100
		}
		if best < 0 || rank > highest {
			best, highest = row, rank
		}
	}
	return best
}

// withhold applies the arm to the bullet of the experiment and returns its exposure. It returns nil without an experiment, or if the arm changes
// nothing.
func (c *selector) withhold() []events.Exposure {
	if c.drawn < 0 || !c.isVaried(c.drawn) {
		return nil
	}
	if c.arm == playbook.ArmWithheld {
		c.decide(c.drawn, withheld)
	}
	b := c.x.rows[c.drawn].bullet
	exposure := events.Exposure{Bullet: b.ID, Experiment: b.CurrentExperiment().Number, Arm: c.arm}
	if c.arm == playbook.ArmWithheld {
		exposure.Wording = events.WordingOf(b.Content)
	}
	return []events.Exposure{exposure}
}

// isVaried reports whether the arm decides if a drawn bullet is shown. Pinned bullets are always shown, and bullets beyond the
// budget never.
func (c *selector) isVaried(row int32) bool {
	return c.decisions[row] == shown && !c.x.rows[row].is(pinnedRows)
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

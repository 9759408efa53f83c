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

// Trials are what a selection needs to know of the bullets that bear on its query.
type Trials struct {
	// Bears is how far the query speaks of what a bullet is about, from 0 to 1. It knows of no answer and of no chance.
	Bears func(*playbook.Bullet) float64
	// Book and Task are what chance is tied to: the same task gets the same, however often and wherever it is laid out.
	Book playbook.Book
	Task string
}

// Bearing is the share from which on a bullet bears on a query. By recall.Coverage, on invoices of the simulated desk, the
// sentences of its 21 rules are then found with a precision and a recall of 1.00. Of twelve rules it is 0.92 and 0.97, of
// six 0.60 and 0.91, of one 0.46 and 1.00: what has no neighbours cannot be told from them yet, and outcomes that have
// nothing to do with a bullet make its case longer and not wrong. With 0.65 the precision of twelve is 0.52; with 0.80
// single rules are missed in more than half of the cases, and what is never found is never judged.
const Bearing = 0.7

// MaxTrials is how many bullets of one context are on trial at the most.
const MaxTrials = 16

// admit bars the bullets on probation that may not be chosen here: all of them where nothing is on trial, else those that
// do not bear on the query, and of too many those that bear on it least. People's pins go before.
func (c *choice) admit() {
	x := c.x
	c.barred = 0
	if x.probation == 0 {
		return
	}
	var in []hearing
	for at := range x.rows {
		r := &x.rows[at]
		if !r.probation || r.pinned {
			continue
		}
		c.fates[at] = waits
		c.barred++
		if c.o.Trials == nil {
			continue
		}
		c.fates[at] = elsewhere
		if how := c.o.Trials.Bears(r.bullet); how >= Bearing {
			in = append(in, hearing{int32(at), true, how})
		}
	}
	c.inOrder(in)
	for _, h := range in[:min(len(in), MaxTrials)] {
		c.fates[h.row] = passed
		c.barred--
	}
}

// may reports whether a bullet can be chosen.
func (c *choice) may(at int) bool {
	return c.barred == 0 || c.fates[at] != waits && c.fates[at] != elsewhere
}

// hearing is a bullet that bears on the query.
type hearing struct {
	row    int32
	chance bool // decides about it
	how    float64
}

// inOrder sorts those first that chance decides about, then by how far they bear on the query, equals by id.
func (c *choice) inOrder(list []hearing) {
	slices.SortFunc(list, func(a, b hearing) int {
		if a.chance != b.chance {
			if a.chance {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.how, a.how), cmp.Compare(c.x.rows[a.row].bullet.ID, c.x.rows[b.row].bullet.ID))
	})
}

// try finds out which of the chosen bullets are on trial, and has chance decide about those on probation.
func (c *choice) try() []events.Trial {
	t := c.o.Trials
	if t == nil || c.x.gate == playbook.GateOff {
		return nil
	}
	var list []hearing
	for _, at := range c.chosen {
		r := &c.x.rows[at]
		if how := t.Bears(r.bullet); how >= Bearing {
			list = append(list, hearing{at, r.probation && !r.pinned, how})
		}
	}
	c.inOrder(list)
	var all []events.Trial
	for _, h := range list[:min(len(list), MaxTrials)] {
		b := c.x.rows[h.row].bullet
		of := b.TheCase()
		trial := events.Trial{Bullet: b.ID, Case: of.Number, Arm: playbook.ArmOpen}
		if h.chance {
			if trial.Arm = playbook.ArmShown; t.draw(b.ID, of.Number) >= of.Share {
				trial.Arm = playbook.ArmWithheld
				c.fates[h.row] = withheld
			}
		}
		all = append(all, trial)
	}
	return all
}

// draw is a number from 0 to 99 that only chance knows beforehand: the same for the same bullet, case and task, and
// independent of that of any other.
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

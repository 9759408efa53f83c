package draft

import (
	"maps"
	"slices"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/text"
)

// decideGate drafts the gate's decisions on the bullets with new evidence, and on the unchecked ones, for which the delta before had no room. It
// returns the bullets that the next delta must check: all of these if this delta has no room for every decision, else none. The change of a
// person leaves the unchecked bullets to the next delta, unless the gate is off.
func (d *draft) decideGate(unchecked []playbook.BulletID) []playbook.BulletID {
	if d.byPerson && d.mode != playbook.GateOff {
		return unchecked
	}
	for _, id := range unchecked {
		d.evidenceChanged[id] = struct{}{}
	}
	full := false
	switch {
	case d.mode != playbook.GateOff:
		full = d.decider().Decide(d.evidenceChanged)
	case len(d.evidenceChanged) > 0: // a reported outcome may have confirmed a text that only inferred outcomes supported
		full = d.decider().Release()
	}
	if !full {
		return nil
	}
	return slices.Sorted(maps.Keys(d.evidenceChanged))
}

// decider returns the gate's decider of the state.
func (d *draft) decider() *gate.Decider {
	return &gate.Decider{Config: d.Gate, Mode: d.mode, Review: d.review, State: d, Typical: d.base.Typical, Apply: d.setStatus}
}

// setStatus drafts the status changes of one decision of the gate. It returns false and drafts none if the delta has no room for
// all of them.
func (d *draft) setStatus(ops []playbook.Op) bool {
	bytes, bullets := d.bytes, map[playbook.BulletID]struct{}{}
	for i := range ops {
		op := &ops[i]
		op.Reason = text.Excerpt(op.Reason, screen.MaxReason)
		if d.byPerson {
			op.Support = []int{0} // the edit
		}
		bytes += sizeOf(op)
		if d.changed[op.Bullet] == nil {
			bullets[op.Bullet] = struct{}{}
		}
	}
	isLimited := d.edit == nil // the change of an edit is split into deltas afterwards
	if isLimited && (bytes > hardBytes || len(d.changed)+len(bullets) > hardBullets) {
		return false
	}
	for _, op := range ops {
		d.changeBullet(op)
	}
	return true
}

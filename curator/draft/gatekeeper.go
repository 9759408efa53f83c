package draft

import (
	"maps"
	"slices"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/playbook"
)

// gatekeeper lets the gate decide on the state.
type gatekeeper struct{ *state }

// decideGate drafts the gate's decisions on the bullets with new evidence. It appends to left, the bullets that the next delta
// must check, those for which the delta has no room. It reports in again whether the next delta has more to decide.
func (d *gatekeeper) decideGate(left []playbook.BulletID) (still []playbook.BulletID, again bool) {
	if d.mode != playbook.GateOn {
		return left, false
	}
	if d.byPerson {
		return left, true
	}
	full := d.queue().Decide(d.evidenceChanged, d.Now)
	if full {
		left = slices.AppendSeq(left, maps.Keys(d.evidenceChanged))
		slices.Sort(left)
		left = slices.Compact(left)
	}
	return left, full
}

// releaseWithheld shows the bullets that the gate withheld; it is called when the gate is turned off.
func (d *gatekeeper) releaseWithheld() {
	for b := range d.All() {
		if b.Rule != nil { // refreshRules sets the status from the counts
			d.stale[b.ID] = struct{}{}
		}
	}
	d.queue().Release(d.mode)
}

func (d *gatekeeper) queue() *gate.Queue {
	return gate.NewQueue(d.Gate, d, d.ruleIsSupported, d.setStatus)
}

// setStatus drafts a status change of the gate. It returns false if the delta has no room.
func (d *gatekeeper) setStatus(op playbook.Op) bool {
	op.Reason = screen.Truncate(op.Reason, screen.MaxReason)
	if d.byPerson {
		op.Support = []int{0} // the edit
	}
	if !d.hasRoomForBullet(&op) {
		return false
	}
	d.changeBullet(op)
	return true
}

package draft

import (
	"maps"
	"slices"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/text"
)

// gatekeeper lets the gate decide on the state.
type gatekeeper struct{ *state }

// decideGate drafts the gate's decisions on the bullets with new evidence. It appends to left, the bullets that the next delta
// must check, those for which the delta has no room. It reports in again whether the next delta has more to decide.
func (d *gatekeeper) decideGate(left []playbook.BulletID) (still []playbook.BulletID, again bool) {
	if d.mode == playbook.GateOff {
		return left, false
	}
	if d.byPerson {
		return left, true
	}
	full := d.decider().Decide(d.evidenceChanged)
	if full {
		left = slices.AppendSeq(left, maps.Keys(d.evidenceChanged))
		slices.Sort(left)
		left = slices.Compact(left)
	}
	return left, full
}

// releaseWithheld shows the bullets that the gate withheld; it is called when the gate becomes less strict.
func (d *gatekeeper) releaseWithheld() {
	d.decider().Release()
}

func (d *gatekeeper) decider() *gate.Decider {
	return gate.NewDecider(d.Gate, d.mode, d, d.base.Tally(), d.setStatus)
}

// setStatus drafts the status changes of one decision of the gate. It returns false and drafts none if the delta has no room for
// all of them.
func (d *gatekeeper) setStatus(ops []playbook.Op) bool {
	bytes, bullets := d.bytes+idSize, map[playbook.BulletID]struct{}{}
	for i := range ops {
		op := &ops[i]
		op.Reason = text.Excerpt(op.Reason, screen.MaxReason)
		if d.byPerson {
			op.Support = []int{0} // the edit
		}
		bytes += opSize(op)
		if d.changed[op.Bullet] == nil {
			bullets[op.Bullet] = struct{}{}
		}
	}
	if !d.unlimited && (bytes > fullBytes || len(d.changed)+len(bullets) > fullKeys) {
		return false
	}
	for _, op := range ops {
		d.changeBullet(op)
	}
	return true
}

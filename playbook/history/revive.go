package history

import (
	"slices"

	"debrief/playbook"
)

// deferredOp is an operation for a later delta, with the covers that support it.
type deferredOp struct {
	op     playbook.Op
	covers []playbook.Cover
}

// deferOp returns an operation for a later delta.
func (r *refolder) deferOp(op playbook.Op) deferredOp {
	deferred := deferredOp{op: op}
	for _, s := range op.Support {
		if s < len(r.covers) { // the indices of the early parts of a change are not validated
			deferred.covers = append(deferred.covers, r.covers[s])
		}
	}
	return deferred
}

// resume returns a deferred operation for the current delta, and adds its covers to the delta.
func (r *refolder) resume(deferred deferredOp) playbook.Op {
	op := deferred.op
	op.Support = nil
	for _, c := range deferred.covers {
		op.Support = append(op.Support, len(r.covers))
		r.covers = append(r.covers, c)
	}
	return op
}

// reviveConfirmed revives a dropped bullet because of a Confirm. Without the forgotten executions, the first request of the Confirm would have added the
// bullet, and the others would have confirmed it.
func (r *refolder) reviveConfirmed(confirm playbook.Op) []playbook.Op {
	ops := r.reviveSame(confirm.Bullet, r.loggedContentOf(confirm.Bullet), confirm.Support[:1])
	confirm.Support = confirm.Support[1:]
	if len(confirm.Support) > 0 {
		ops = append(ops, confirm)
	}
	return ops
}

// revive returns the operations that add a dropped bullet with other support, and its deferred operations.
func (r *refolder) revive(id playbook.BulletID, support []int) []playbook.Op {
	dropped := r.state.dropped[id]
	delete(r.state.dropped, id)
	dropped.add.Support = support
	ops := []playbook.Op{dropped.add}
	for _, deferred := range dropped.later {
		ops = append(ops, r.resume(deferred))
	}
	return ops
}

// reviveMixed revives a mixed bullet. An earlier forget change could not quarantine it, because the bullet did not exist then. So it is quarantined
// now, unless a person has approved it since. A later forget change will quarantine the bullet itself.
func (r *refolder) reviveMixed(id playbook.BulletID, support []int) []playbook.Op {
	ops := r.revive(id, support)
	isUnapproved := func(forgottenAt uint64) bool { return forgottenAt < r.version && r.approved[id] < forgottenAt }
	if slices.ContainsFunc(r.state.mixed[id], isUnapproved) {
		ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Quarantined})
	}
	return ops
}

// reviveRejected revives a dropped bullet because another reflection proposed the same content and was rejected as a
// duplicate. For another rejection it returns no operations.
func (r *refolder) reviveRejected(j *playbook.Rejection, support remainingSupport) []playbook.Op {
	_, isDropped := r.state.dropped[j.DuplicateOf]
	if j.DuplicateOf == "" || !isDropped || support.left == 0 {
		return nil
	}
	return r.reviveSame(j.DuplicateOf, j.Op.Content, support.indices)
}

// reviveSame revives a dropped bullet because another reflection or edit proposed the same content. If its words differ, the bullet is mixed, because
// it has the words of a forgotten execution.
func (r *refolder) reviveSame(id playbook.BulletID, content string, support []int) []playbook.Op {
	dropped := r.state.dropped[id]
	if playbook.ContentKeyOf(dropped.add.Content) != playbook.ContentKeyOf(content) {
		r.state.addMixed(id, dropped.forgottenBy)
		return r.reviveMixed(id, support)
	}
	return r.revive(id, support)
}

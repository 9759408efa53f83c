package history

import (
	"slices"

	"debrief/playbook"
)

// remainingSupport is the support of an operation after covers were forgotten.
type remainingSupport struct {
	total, left int      // covers, and those that are not forgotten
	forgottenBy []uint64 // versions of the forget changes
	indices     []int    // of the covers that are left, in the covers of the change
}

// supportOf returns the support of an operation. forgotten has, for each cover of the change, the version that forgot the cover, or 0.
func (r *refolder) supportOf(part *playbook.Delta, op *playbook.Op, forgotten []uint64) (support remainingSupport) {
	count := func(i int, by uint64) {
		support.total++
		if by == 0 {
			support.left++
			support.indices = append(support.indices, i)
		} else {
			support.forgottenBy = union(support.forgottenBy, []uint64{by})
		}
	}
	if part.More && part.Author != Curator { // in an early part of an edit, every cover supports every operation; see change.support
		for i, by := range forgotten {
			count(i, by)
		}
		return support
	}
	for _, i := range op.Support {
		if i >= 0 && i < len(forgotten) { // indices of rejections are not validated
			count(i, forgotten[i])
		}
	}
	return support
}

// trimSupport removes forgotten support from an operation, with the outcomes that belong to it.
func trimSupport(op *playbook.Op, forgotten []uint64) {
	var support []int
	var exposures []playbook.Exposure
	for i, s := range op.Support {
		if s < len(forgotten) && forgotten[s] != 0 {
			continue
		}
		support = append(support, s)
		if i < len(op.Exposures) {
			exposures = append(exposures, op.Exposures[i])
		}
	}
	op.Support, op.Exposures = support, exposures
}

// deferredOp is an operation for a later delta, with the covers that support it.
type deferredOp struct {
	op     playbook.Op
	covers []playbook.Cover
}

func (r *refolder) deferOp(op playbook.Op) deferredOp {
	deferred := deferredOp{op: op}
	for _, s := range op.Support {
		if s < len(r.covers) { // indices of early parts are not validated
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

// A fold without the forgotten executions keeps two lists beside the playbook, see foldState:
//
//   - A dropped bullet has lost all support of its Add, so the playbook does not have it. Its Add waits, and later operations that have
//     other support are deferred. If another execution has requested the bullet too, by an Update, a Confirm or a rejected duplicate, the
//     bullet is revived: the Add and the deferred operations are applied then.
//   - A mixed bullet has an operation of which a part of the support is forgotten, or was revived with the words of a forgotten execution.
//     Its text may still contain what was forgotten, so it is quarantined until a person approves it, see forgetOps and reviveMixed.
//
// Both lists have the versions of the forget changes that removed the support, because an approval counts only against those before it.

// filterOp returns the operations that replace an operation after covers were forgotten:
//
//   - none, if all its support is forgotten;
//   - on a dropped bullet, those that revive the bullet, if the operation sets or confirms its content; else none for now, because the
//     operation is deferred;
//   - else the operation with the support that is left. If a part is forgotten, the bullet is recorded as mixed. Votes, outcomes and
//     confirmations do not make a bullet mixed, because each of them rests on one execution.
func (r *refolder) filterOp(op playbook.Op, support remainingSupport, forgotten []uint64) []playbook.Op {
	s := r.state
	dropped, isDropped := s.dropped[op.Bullet]
	if support.total > 0 && support.left == 0 {
		if op.Kind == playbook.Add {
			s.dropped[op.Bullet] = droppedBullet{add: op, forgottenBy: support.forgottenBy}
		}
		return nil
	}
	trimSupport(&op, forgotten)
	switch op.Kind {
	case playbook.Tag:
		if n := singleCounter(&op); n != nil && support.total > 0 { // each vote has one execution, so no vote is mixed
			*n = min(*n, support.left)
			support.forgottenBy = nil
		}
	case playbook.Retag:
		if n := singleCounter(&op); n != nil {
			*n = len(op.Support)
		}
		support.forgottenBy = nil
	case playbook.AddExposures:
		support.forgottenBy = nil
	case playbook.Confirm:
		support.forgottenBy = nil
		if !isDropped {
			if !r.hasLoggedContent(op.Bullet) { // the operation confirms content that is forgotten
				return nil
			}
			break
		}
		// Without the forgotten executions, the first request that is left would have added the bullet. The others confirm it.
		ops := r.reviveSame(op.Bullet, r.loggedContentOf(op.Bullet), op.Support[:1])
		op.Support = op.Support[1:]
		if len(op.Support) > 0 {
			ops = append(ops, op)
		}
		return ops
	case playbook.Update:
		if isDropped { // the new content has other support
			s.addMixed(op.Bullet, union(dropped.forgottenBy, support.forgottenBy))
			return append(r.reviveMixed(op.Bullet, nil), op)
		}
	case playbook.Merge:
		if isDropped { // the target does not exist: the sources stay unmerged
			return nil
		}
		for _, id := range op.Sources { // the target takes over what its sources have lost
			support.forgottenBy = union(support.forgottenBy, union(s.dropped[id].forgottenBy, s.mixed[id]))
			delete(s.dropped, id)
			delete(s.mixed, id)
		}
	case playbook.Put, playbook.Remove:
		delete(s.dropped, op.Bullet)
		delete(s.mixed, op.Bullet)
		return []playbook.Op{op}
	}
	if isDropped {
		dropped.later = append(slices.Clip(dropped.later), r.deferOp(op))
		s.dropped[op.Bullet] = dropped
		return nil
	}
	s.addMixed(op.Bullet, support.forgottenBy)
	return []playbook.Op{op}
}

// revive adds a dropped bullet with other support, and applies its deferred operations.
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

// reviveMixed revives a bullet with partly forgotten support. A forget change before this version could not quarantine the bullet, which
// did not exist then. So it is quarantined now, unless a person has approved it since. A later forget change will do so itself.
func (r *refolder) reviveMixed(id playbook.BulletID, support []int) []playbook.Op {
	ops := r.revive(id, support)
	isUnapproved := func(forgottenAt uint64) bool { return forgottenAt < r.version && r.approved[id] < forgottenAt }
	if slices.ContainsFunc(r.state.mixed[id], isUnapproved) {
		ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Quarantined})
	}
	return ops
}

// reviveRejected revives a dropped bullet because another reflection proposed the same content and was rejected as a
// duplicate. If its words differ, a person must approve the bullet.
func (r *refolder) reviveRejected(j *playbook.Rejection, support remainingSupport) []playbook.Op {
	_, isDropped := r.state.dropped[j.DuplicateOf]
	if j.DuplicateOf == "" || !isDropped || support.left == 0 {
		return nil
	}
	return r.reviveSame(j.DuplicateOf, j.Op.Content, support.indices)
}

// reviveSame revives a bullet because another reflection or edit proposed the same content.
func (r *refolder) reviveSame(id playbook.BulletID, content string, support []int) []playbook.Op {
	dropped := r.state.dropped[id]
	if playbook.ContentKeyOf(dropped.add.Content) != playbook.ContentKeyOf(content) {
		r.state.addMixed(id, dropped.forgottenBy)
		return r.reviveMixed(id, support)
	}
	return r.revive(id, support)
}

// singleCounter returns the only counter that a tag changes, or nil if it changes several.
func singleCounter(op *playbook.Op) (one *int) {
	for _, n := range [...]*int{&op.Helpful, &op.Harmful, &op.Neutral} {
		if *n > 0 {
			if one != nil {
				return nil
			}
			one = n
		}
	}
	return one
}

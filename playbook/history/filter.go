package history

import (
	"slices"

	"debrief/playbook"
)

// remainingSupport is the support of an operation after covers were forgotten.
type remainingSupport struct {
	total       int      // number of covers before
	left        int      // number of covers that are not forgotten
	indices     []int    // of the covers that are left, in the covers of the change
	forgottenBy []uint64 // versions of the forget changes that match the others
}

// supportOf returns the support of an operation. forgotten has, for each cover of the change, the version that forgot the cover, or 0.
func (r *refolder) supportOf(part *playbook.Delta, op *playbook.Op, forgotten []uint64) (support remainingSupport) {
	if part.More && part.Author != Curator { // each cover supports each operation, see change.support
		for i, by := range forgotten {
			support.addCover(i, by)
		}
		return support
	}
	for _, i := range op.Support {
		if i >= 0 && i < len(forgotten) { // indices of rejections are not validated
			support.addCover(i, forgotten[i])
		}
	}
	return support
}

// addCover adds the cover with an index. by is the version that forgot it, or 0.
func (s *remainingSupport) addCover(index int, by uint64) {
	s.total++
	if by != 0 {
		s.forgottenBy = union(s.forgottenBy, []uint64{by})
		return
	}
	s.left++
	s.indices = append(s.indices, index)
}

// isLost reports whether there was support, and all of it is forgotten.
func (s *remainingSupport) isLost() bool { return s.total > 0 && s.left == 0 }

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

// trimCounter limits the votes of an operation to the support that is left. An operation with several counters keeps them all, because its
// support does not say which execution gave which vote.
func trimCounter(op *playbook.Op, support remainingSupport) {
	n := singleCounter(op)
	switch {
	case n == nil:
	case op.Kind == playbook.Retag:
		*n = len(op.Support)
	case op.Kind == playbook.Tag && support.total > 0:
		*n = min(*n, support.left)
	}
}

// canMix reports whether an operation of which a part of the support is forgotten makes its bullet a mixed one. A vote, an outcome and a
// confirmation do not, because each of them has one execution.
func canMix(op *playbook.Op) bool {
	switch op.Kind {
	case playbook.Retag, playbook.AddExposures, playbook.Confirm:
		return false
	case playbook.Tag:
		return singleCounter(op) == nil
	}
	return true
}

// filterOp returns the operations that replace op after covers were forgotten. A dropped bullet has lost all support of its Add, a mixed one a
// part of the support of its text; see foldState. The first rule that applies counts:
//
//   - All support of op is forgotten: no operation replaces it. The bullet of an Add becomes a dropped one.
//   - op sets the whole bullet or removes it: op remains, and the bullet is neither dropped nor mixed.
//   - The bullet is dropped: see filterDropped.
//   - Otherwise the result is op with the support that is left, see filterPresent.
func (r *refolder) filterOp(op playbook.Op, support remainingSupport, forgotten []uint64) []playbook.Op {
	r.mergeVotes(&op)
	r.keepVotes(&op, forgotten)
	if support.isLost() {
		if op.Kind == playbook.Add {
			r.state.dropped[op.Bullet] = droppedBullet{add: op, forgottenBy: support.forgottenBy}
		}
		return nil
	}
	trimSupport(&op, forgotten)
	trimCounter(&op, support)
	if op.Kind == playbook.Put || op.Kind == playbook.Remove {
		delete(r.state.dropped, op.Bullet)
		delete(r.state.mixed, op.Bullet)
		return []playbook.Op{op}
	}
	if _, isDropped := r.state.dropped[op.Bullet]; isDropped {
		return r.filterDropped(op, support.forgottenBy)
	}
	return r.filterPresent(op, support.forgottenBy)
}

// filterDropped returns the operations that replace an operation on a dropped bullet. An operation that sets or confirms the content revives the
// bullet. Any other is deferred until then. forgottenBy has the versions that forgot a part of the support.
func (r *refolder) filterDropped(op playbook.Op, forgottenBy []uint64) []playbook.Op {
	dropped := r.state.dropped[op.Bullet]
	switch op.Kind {
	case playbook.Confirm:
		return r.reviveConfirmed(op)
	case playbook.Update: // the new content has other support
		r.state.addMixed(op.Bullet, union(dropped.forgottenBy, forgottenBy))
		return append(r.reviveMixed(op.Bullet, nil), op)
	case playbook.Merge: // the target does not exist: the sources stay unmerged
		return nil
	}
	for _, later := range r.moveKeptVotes(op) {
		dropped.later = append(slices.Clip(dropped.later), r.deferOp(later))
	}
	r.state.dropped[op.Bullet] = dropped
	return nil
}

// filterPresent returns the operations that replace an operation on a bullet that is not dropped. forgottenBy has the versions that forgot a part
// of the support. If there are any, the bullet may become a mixed one.
func (r *refolder) filterPresent(op playbook.Op, forgottenBy []uint64) []playbook.Op {
	s := r.state
	switch op.Kind {
	case playbook.Confirm:
		if !r.hasLoggedContent(op.Bullet) { // the operation confirms content that is forgotten
			return nil
		}
	case playbook.Merge:
		for _, id := range op.Sources { // the target has the texts of its sources, and so their lost support
			forgottenBy = union(forgottenBy, union(s.dropped[id].forgottenBy, s.mixed[id]))
			delete(s.dropped, id)
			delete(s.mixed, id)
		}
	}
	if canMix(&op) {
		s.addMixed(op.Bullet, forgottenBy)
	}
	return r.moveKeptVotes(op)
}

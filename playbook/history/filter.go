package history

import (
	"slices"

	"debrief/playbook"
)

// remainingSupport is the support of an operation after covers were forgotten.
type remainingSupport struct {
	total       int      // number of covers before
	left        int      // number of covers that are not forgotten
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
	if part.More && part.Author != Curator { // each cover supports each operation, see change.support
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

// filterOp returns the operations that replace op after covers were forgotten. A dropped bullet has lost all support of its Add, a mixed one a
// part of the support of its text; see foldState. The first rule that applies counts:
//
//   - All support of op is forgotten: no operation replaces it. The bullet of an Add becomes a dropped one.
//   - The bullet is dropped: if op sets or confirms the content, the result revives the bullet. Any other op is deferred.
//   - Otherwise the result is op with the support that is left. If a part is forgotten, the bullet becomes a mixed one. Votes, outcomes and
//     confirmations do not make a bullet mixed, because each of them has one execution.
func (r *refolder) filterOp(op playbook.Op, support remainingSupport, forgotten []uint64) []playbook.Op {
	s := r.state
	dropped, isDropped := s.dropped[op.Bullet]
	r.keepVotes(&op, forgotten)
	if support.total > 0 && support.left == 0 {
		if op.Kind == playbook.Add {
			s.dropped[op.Bullet] = droppedBullet{add: op, forgottenBy: support.forgottenBy}
		}
		return nil
	}
	trimSupport(&op, forgotten)
	switch op.Kind {
	case playbook.Tag:
		if n := singleCounter(&op); n != nil && support.total > 0 {
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
		if isDropped {
			return r.reviveConfirmed(op)
		}
		if !r.hasLoggedContent(op.Bullet) { // the operation confirms content that is forgotten
			return nil
		}
	case playbook.Update:
		if isDropped { // the new content has other support
			s.addMixed(op.Bullet, union(dropped.forgottenBy, support.forgottenBy))
			return append(r.reviveMixed(op.Bullet, nil), op)
		}
	case playbook.Merge:
		if isDropped { // the target does not exist: the sources stay unmerged
			return nil
		}
		for _, id := range op.Sources { // the target has the texts of its sources, and so their lost support
			support.forgottenBy = union(support.forgottenBy, union(s.dropped[id].forgottenBy, s.mixed[id]))
			delete(s.dropped, id)
			delete(s.mixed, id)
		}
	case playbook.Put, playbook.Remove:
		delete(s.dropped, op.Bullet)
		delete(s.mixed, op.Bullet)
		return []playbook.Op{op}
	}
	ops := r.moveKeptVotes(op)
	if isDropped {
		for _, op := range ops {
			dropped.later = append(slices.Clip(dropped.later), r.deferOp(op))
		}
		s.dropped[op.Bullet] = dropped
		return nil
	}
	s.addMixed(op.Bullet, support.forgottenBy)
	return ops
}

// voteOf returns the key of the vote, bullet and sample, that a cover of the current change casts. ok is false without a sample.
func (r *refolder) voteOf(id playbook.BulletID, cover int) (v castVote, ok bool) {
	if cover >= len(r.covers) || r.covers[cover].Evidence == nil {
		return v, false
	}
	v = castVote{id, r.covers[cover].Evidence.Sample}
	return v, v.sample != ""
}

// keepVotes records the votes of samples that a forgotten Tag or Retag does not change: the old vote, or none. A later Retag starts from
// them. A Merge takes over the recorded votes of its sources.
func (r *refolder) keepVotes(op *playbook.Op, forgotten []uint64) {
	votes := r.state.votes
	for _, source := range op.Sources { // of a Merge
		for v, vote := range votes {
			if v.bullet != source {
				continue
			}
			delete(votes, v)
			merged := castVote{op.Bullet, v.sample}
			if _, isKept := votes[merged]; !isKept {
				votes[merged] = vote
			}
		}
	}
	if op.Kind != playbook.Tag && op.Kind != playbook.Retag {
		return
	}
	for _, i := range op.Support {
		if i >= len(forgotten) || forgotten[i] == 0 {
			continue
		}
		v, ok := r.voteOf(op.Bullet, i)
		if _, isKept := votes[v]; ok && !isKept {
			votes[v] = op.OldVote // empty for a Tag
		}
	}
}

// moveKeptVotes returns the operations in place of an operation. A Retag becomes one operation for each sample with a recorded vote, which
// moves this vote in place of OldVote, and one for all other samples.
func (r *refolder) moveKeptVotes(op playbook.Op) (ops []playbook.Op) {
	if op.Kind != playbook.Retag {
		return []playbook.Op{op}
	}
	var rest []int
	for _, i := range op.Support {
		v, _ := r.voteOf(op.Bullet, i)
		kept, isKept := r.state.votes[v]
		if !isKept {
			rest = append(rest, i)
			continue
		}
		delete(r.state.votes, v)
		moved := op
		moved.Support, moved.OldVote = []int{i}, kept
		if kept == "" {
			moved.Kind = playbook.Tag
		}
		n := singleCounter(&moved)
		if n != nil {
			*n = 1
		}
		if n != nil || kept != "" {
			ops = append(ops, moved)
		}
	}
	op.Support = rest
	if n := singleCounter(&op); n != nil {
		*n = len(rest)
	}
	if len(rest) > 0 {
		ops = append(ops, op)
	}
	return ops
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

// singleCounter returns the only counter that a Tag or Retag changes. It returns nil if there are several or none.
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

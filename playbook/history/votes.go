package history

import "debrief/playbook"

// castVote names the vote of a sample on a bullet.
type castVote struct {
	bullet playbook.BulletID
	sample string
}

// voteOf returns the key of the vote, bullet and sample, that a cover of the current change casts. ok is false without a sample.
func (r *refolder) voteOf(id playbook.BulletID, cover int) (v castVote, ok bool) {
	if cover >= len(r.covers) || r.covers[cover].Evidence == nil {
		return v, false
	}
	v = castVote{id, r.covers[cover].Evidence.Sample}
	return v, v.sample != ""
}

// mergeVotes moves the recorded votes of the sources of a Merge to its bullet. A vote of the same sample on the bullet itself has priority.
func (r *refolder) mergeVotes(op *playbook.Op) {
	votes := r.state.votes
	for _, source := range op.Sources {
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
}

// keepVotes records the votes of samples that a forgotten Tag or Retag does not change: the old vote, or none. A later Retag starts from
// them.
func (r *refolder) keepVotes(op *playbook.Op, forgotten []uint64) {
	if op.Kind != playbook.Tag && op.Kind != playbook.Retag {
		return
	}
	for _, i := range op.Support {
		if i >= len(forgotten) || forgotten[i] == 0 {
			continue
		}
		v, ok := r.voteOf(op.Bullet, i)
		if !ok {
			continue
		}
		if _, isKept := r.state.votes[v]; !isKept {
			r.state.votes[v] = op.OldVote // empty for a Tag
		}
	}
}

// moveKeptVotes returns the operations in place of an operation. A Retag becomes one operation for each sample with a recorded vote, and one for
// all other samples.
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
		if moved, ok := retagFrom(op, kept, i); ok {
			ops = append(ops, moved)
		}
	}
	if len(rest) == 0 {
		return ops
	}
	op.Support = rest
	if n := singleCounter(&op); n != nil {
		*n = len(rest)
	}
	return append(ops, op)
}

// retagFrom returns a Retag for one cover of its support, whose sample has the vote old in place of OldVote. If old is empty, the Retag becomes a
// Tag. ok is false without an old and a new vote.
func retagFrom(op playbook.Op, old playbook.Vote, cover int) (moved playbook.Op, ok bool) {
	op.Support, op.OldVote = []int{cover}, old
	if old == "" {
		op.Kind = playbook.Tag
	}
	n := singleCounter(&op)
	if n != nil {
		*n = 1
	}
	return op, n != nil || old != ""
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

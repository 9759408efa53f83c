package history

import (
	"maps"
	"slices"

	"debrief/playbook"
)

// Contribution has the votes, outcomes and requests that bullets have from one sample, after all corrections, merges, restores
// and forget changes so far. The caller applies the deltas of the log in order. A bullet that was merged and then
// brought back by a forget change does not get its votes back.
type Contribution struct {
	version     uint64
	sample      string
	parts       playbook.ChangeAssembler
	current     tally
	history     []tally                                 // one for each version that changed it, oldest first
	forgottenAt uint64                                  // the last version that forgot the sample
	evidence    *playbook.Evidence                      // the last evidence of the sample in the log; nil before the first
	feedback    uint64                                  // see LastFeedback
	merged      map[playbook.BulletID]playbook.BulletID // by merged bullet: the bullet that it was merged into
}

// tally contains the votes, outcomes and requests at a version. Its maps are immutable.
type tally struct {
	version   uint64
	votes     map[playbook.BulletID][]playbook.Vote
	outcomes  map[experimentKey][]playbook.Exposure
	requested map[playbook.BulletID]bool // see Requested
}

// experimentKey identifies an experiment: its bullet and its number among the experiments of that bullet.
type experimentKey struct {
	bullet playbook.BulletID
	number int
}

// NewContribution returns the contribution of a sample before the first delta. The sample is the id of the execution of
// its first round: a copy of an execution has the same id and another handle.
func NewContribution(sample string) *Contribution {
	return &Contribution{sample: sample, merged: map[playbook.BulletID]playbook.BulletID{}}
}

// Version returns the version of the last delta.
func (s *Contribution) Version() uint64 { return s.version }

// LastFeedback returns the highest sequence of the feedback on the sample that the log covers, 0 without feedback.
func (s *Contribution) LastFeedback() uint64 { return s.feedback }

// Inferred reports whether the outcome in the last evidence from the sample was only inferred.
func (s *Contribution) Inferred() bool { return s.evidence != nil && s.evidence.Inferred }

// Votes returns the votes by bullet. A bullet has several votes if others with votes were merged into it.
func (s *Contribution) Votes() map[playbook.BulletID][]playbook.Vote { return s.current.votes }

// Outcomes returns the outcomes that count in an experiment with a bullet. It returns nil without any.
func (s *Contribution) Outcomes(id playbook.BulletID, number int) []playbook.Exposure {
	return s.current.outcomes[experimentKey{id, number}]
}

// Requested reports whether the sample has requested the text of a bullet, or of one that was merged into it.
func (s *Contribution) Requested(id playbook.BulletID) bool { return s.current.requested[id] }

// MergedInto returns the bullet that a merged bullet is now part of, or the bullet itself.
func (s *Contribution) MergedInto(id playbook.BulletID) playbook.BulletID {
	for range len(s.merged) { // ends also if merges form a cycle
		into, ok := s.merged[id]
		if !ok {
			break
		}
		id = into
	}
	return id
}

// Apply folds the next delta of the log.
func (s *Contribution) Apply(d *playbook.Delta) {
	s.version = d.Version
	c := change(s.parts.Add(d))
	if c == nil {
		return
	}
	last := c.last()
	ours := make([]bool, len(last.Covers)) // by cover: whether it is of this sample
	for i, cover := range last.Covers {
		ours[i] = cover.Evidence != nil && cover.Evidence.Sample == s.sample
		if ours[i] {
			s.evidence = cover.Evidence
			s.feedback = max(s.feedback, cover.Evidence.FeedbackSeq)
		}
	}
	if last.RestoredVersion != nil {
		s.set(s.tallyAt(*last.RestoredVersion)) // it has the effect of the operations already
		return
	}
	if last.Forget != nil && s.isForgottenBy(last.Forget) {
		s.forgottenAt = last.Version
		s.set(tally{})
	}
	for _, part := range c {
		for i := range part.Ops {
			s.applyOp(&part.Ops[i], ours, last.Forget != nil)
		}
	}
}

// isForgottenBy reports whether a forget change matches the sample.
func (s *Contribution) isForgottenBy(selector *playbook.Selector) bool {
	return s.evidence != nil && selector.Matches(s.evidence)
}

// set sets the tally at the current version.
func (s *Contribution) set(next tally) {
	next.version = s.version
	s.current = next
	s.history = append(s.history, next)
}

// tallyAt returns the tally at an earlier version. It is empty if the sample was forgotten after that version.
func (s *Contribution) tallyAt(version uint64) tally {
	if version < s.forgottenAt {
		return tally{}
	}
	for _, t := range slices.Backward(s.history) {
		if t.version <= version {
			return t
		}
	}
	return tally{}
}

// applyOp folds one operation. ours reports for each cover whether it is of this sample. forgets is true for a forget change.
func (s *Contribution) applyOp(op *playbook.Op, ours []bool, forgets bool) {
	switch op.Kind {
	case playbook.Remove:
		s.clear(op.Bullet)
		return
	case playbook.Put:
		if !forgets { // a Put by a forget change keeps the votes
			s.clear(op.Bullet)
		}
		return
	case playbook.Merge:
		s.merge(op)
	}
	for i, cover := range op.Support {
		if cover < 0 || cover >= len(ours) || !ours[cover] {
			continue
		}
		switch op.Kind {
		case playbook.Tag:
			s.moveVote(op.Bullet, "", op.NewVote())
		case playbook.Retag:
			s.moveVote(op.Bullet, op.OldVote, op.NewVote())
		case playbook.AddExposures:
			if i < len(op.Exposures) {
				s.addOutcome(experimentKey{op.Bullet, op.ExperimentNumber}, op.Exposures[i])
			}
		case playbook.Add, playbook.Update, playbook.Merge, playbook.Confirm:
			s.addRequest(op.Bullet)
		}
	}
}

// moveVote replaces one vote by another. If from is "", it only adds a vote, and if to is "", it only removes one.
func (s *Contribution) moveVote(id playbook.BulletID, from, to playbook.Vote) {
	votes := slices.Clone(s.current.votes[id])
	if i := slices.Index(votes, from); i >= 0 {
		votes = slices.Delete(votes, i, i+1)
	}
	if to != "" {
		votes = append(votes, to)
	}
	next := s.current
	next.votes = withValue(next.votes, id, votes)
	s.set(next)
}

// addOutcome adds an outcome to an experiment, or removes an equal one if it is an undo.
func (s *Contribution) addOutcome(key experimentKey, outcome playbook.Exposure) {
	all := slices.Clone(s.current.outcomes[key])
	if !outcome.Undo {
		all = append(all, outcome)
	} else {
		outcome.Undo = false // as it was added
		if i := slices.Index(all, outcome); i >= 0 {
			all = slices.Delete(all, i, i+1)
		}
	}
	next := s.current
	next.outcomes = withValue(next.outcomes, key, all)
	s.set(next)
}

// addRequest records a request for the text of a bullet.
func (s *Contribution) addRequest(id playbook.BulletID) {
	next := s.current
	next.requested = map[playbook.BulletID]bool{id: true}
	maps.Copy(next.requested, s.current.requested)
	s.set(next)
}

// merge moves the votes and requests of the sources of a Merge to its bullet.
func (s *Contribution) merge(op *playbook.Op) {
	for _, id := range op.Sources {
		if id == op.Bullet {
			continue
		}
		s.merged[id] = op.Bullet
		if s.Requested(id) {
			s.addRequest(op.Bullet)
		}
		if votes := s.current.votes[id]; len(votes) > 0 {
			next := s.current
			next.votes = withValue(next.votes, op.Bullet, slices.Concat(next.votes[op.Bullet], votes))
			next.votes = withValue(next.votes, id, nil)
			s.set(next)
		}
	}
}

// clear removes all votes and outcomes of a bullet, which was removed or replaced.
func (s *Contribution) clear(id playbook.BulletID) {
	delete(s.merged, id)
	isOf := func(key experimentKey, _ []playbook.Exposure) bool { return key.bullet == id }
	next := s.current
	next.votes, next.outcomes = withValue(next.votes, id, nil), maps.Clone(next.outcomes)
	maps.DeleteFunc(next.outcomes, isOf)
	if len(next.votes) < len(s.current.votes) || len(next.outcomes) < len(s.current.outcomes) {
		s.set(next)
	}
}

// withValue returns a copy of a map with a new value of a key. An empty value removes the key.
func withValue[K comparable, V any](m map[K][]V, key K, value []V) map[K][]V {
	next := make(map[K][]V, len(m)+1)
	maps.Copy(next, m)
	next[key] = value
	if len(value) == 0 {
		delete(next, key)
	}
	return next
}

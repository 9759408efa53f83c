package history

import (
	"maps"
	"slices"

	"debrief/playbook"
)

// Standing is what one execution counts for at a point of a log: which votes and outcomes bullets have from it now, after
// every correction, merge, restore and forgetting so far. It is folded delta by delta, so that who has read the log once
// reads on where it was. What a forgetting brings back that had been merged away does not take its votes along.
type Standing struct {
	version uint64
	sample  string
	parts   playbook.Parts
	now     standing
	then    []standing // at the versions in which it changed, oldest first
	clean   uint64     // the last version that forgot the execution
	known   *playbook.Evidence
	judged  uint64
	merged  map[playbook.BulletID]playbook.BulletID // where bullets went, also where that was taken back since
}

// standing is a Standing at a version. The maps are not changed.
type standing struct {
	version uint64
	votes   map[playbook.BulletID][]playbook.Vote
	trials  map[trial][]playbook.Seen
}

// trial is a case of a bullet.
type trial struct {
	bullet playbook.BulletID
	number int
}

// NewStanding returns the standing of a sample, by the id of the execution of its first round, before the first delta. A
// resent execution has another handle and the same id.
func NewStanding(sample string) *Standing {
	return &Standing{sample: sample, merged: map[playbook.BulletID]playbook.BulletID{}}
}

// Version is that of the last delta taken.
func (s *Standing) Version() uint64 { return s.version }

// Judged is the highest sequence of the feedback behind what is in the log, 0 where there is none.
func (s *Standing) Judged() uint64 { return s.judged }

// Votes are those that bullets have from the execution. A bullet has several where others with votes were merged into it.
func (s *Standing) Votes() map[playbook.BulletID][]playbook.Vote { return s.now.votes }

// Seen are the outcomes that count in a case of a bullet.
func (s *Standing) Seen(id playbook.BulletID, number int) []playbook.Seen {
	return s.now.trials[trial{id, number}]
}

// Into is the bullet that one that is gone was merged into, or the bullet itself.
func (s *Standing) Into(id playbook.BulletID) playbook.BulletID {
	for range len(s.merged) { // each takes one step on
		into, gone := s.merged[id]
		if !gone {
			break
		}
		id = into
	}
	return id
}

// Take folds the next delta of the log.
func (s *Standing) Take(d *playbook.Delta) {
	s.version = d.Version
	c := change(s.parts.Take(d))
	if c == nil {
		return
	}
	last := c.last()
	ours := make([]bool, len(last.Covers))
	for i, cover := range last.Covers {
		if ours[i] = cover.Evidence != nil && cover.Evidence.Sample == s.sample; ours[i] {
			s.known = cover.Evidence
			s.judged = max(s.judged, cover.Evidence.Judged)
		}
	}
	switch {
	case last.Forgets != nil && s.reaches(last.Forgets):
		s.clean = last.Version
		s.set(standing{})
	case last.Restores != nil:
		s.set(s.at(*last.Restores))
		return
	}
	for _, part := range c {
		for i := range part.Ops {
			s.op(&part.Ops[i], ours, last.Forgets != nil)
		}
	}
}

// reaches reports whether a forgetting is of the execution.
func (s *Standing) reaches(what *playbook.Selector) bool {
	return s.known != nil && what.Matches(s.known)
}

// set makes a standing that of the version that is being folded.
func (s *Standing) set(next standing) {
	next.version = s.version
	s.now = next
	s.then = append(s.then, next)
}

// at is the standing at an earlier version, without what was forgotten since.
func (s *Standing) at(version uint64) standing {
	for _, t := range slices.Backward(s.then) {
		if t.version <= version && version >= s.clean {
			return t
		}
	}
	return standing{}
}

// op folds one operation.
func (s *Standing) op(op *playbook.Op, ours []bool, forgets bool) {
	switch op.Kind {
	case playbook.Put, playbook.Remove:
		if !forgets || op.Kind == playbook.Remove { // what a forgetting puts back has the votes that it had
			s.drop(op.Bullet)
		}
		return
	case playbook.Merge:
		s.merge(op)
		return
	case playbook.Tag, playbook.Retag, playbook.Trial:
	default:
		return
	}
	for i, at := range op.Support {
		if at < 0 || at >= len(ours) || !ours[at] {
			continue
		}
		switch op.Kind {
		case playbook.Tag:
			s.vote(op.Bullet, "", voteOf(op))
		case playbook.Retag:
			s.vote(op.Bullet, op.Was, voteOf(op))
		case playbook.Trial:
			if i < len(op.Seen) {
				s.saw(trial{op.Bullet, op.Case}, op.Seen[i])
			}
		}
	}
}

// voteOf is the vote that an operation casts, none if it only takes one back.
func voteOf(op *playbook.Op) playbook.Vote {
	switch {
	case op.Helpful > 0:
		return playbook.Helpful
	case op.Harmful > 0:
		return playbook.Harmful
	case op.Neutral > 0:
		return playbook.Neutral
	}
	return ""
}

// vote takes back a vote where there was one, and casts one where there is a new one.
func (s *Standing) vote(id playbook.BulletID, was, is playbook.Vote) {
	votes := slices.Clone(s.now.votes[id])
	if i := slices.Index(votes, was); i >= 0 {
		votes = slices.Delete(votes, i, i+1)
	}
	if is != "" {
		votes = append(votes, is)
	}
	next := s.now
	next.votes = with(next.votes, id, votes)
	s.set(next)
}

func (s *Standing) saw(t trial, seen playbook.Seen) {
	all := slices.Clone(s.now.trials[t])
	if !seen.Undo {
		all = append(all, seen)
	} else {
		seen.Undo = false
		if i := slices.Index(all, seen); i >= 0 {
			all = slices.Delete(all, i, i+1)
		}
	}
	next := s.now
	next.trials = with(next.trials, t, all)
	s.set(next)
}

func (s *Standing) merge(op *playbook.Op) {
	for _, id := range op.Sources {
		if id == op.Bullet {
			continue
		}
		s.merged[id] = op.Bullet
		if votes := s.now.votes[id]; len(votes) > 0 {
			next := s.now
			next.votes = with(next.votes, op.Bullet, slices.Concat(next.votes[op.Bullet], votes))
			next.votes = with(next.votes, id, nil)
			s.set(next)
		}
	}
}

// drop forgets what a bullet had: it is gone, or another one now.
func (s *Standing) drop(id playbook.BulletID) {
	delete(s.merged, id)
	of := func(t trial, _ []playbook.Seen) bool { return t.bullet == id }
	next := s.now
	next.votes, next.trials = with(next.votes, id, nil), maps.Clone(next.trials)
	maps.DeleteFunc(next.trials, of)
	if len(next.votes) < len(s.now.votes) || len(next.trials) < len(s.now.trials) {
		s.set(next)
	}
}

// with is a map with another value, which is not in it where it is empty.
func with[K comparable, V any](m map[K][]V, key K, value []V) map[K][]V {
	next := make(map[K][]V, len(m)+1)
	maps.Copy(next, m)
	if next[key] = value; len(value) == 0 {
		delete(next, key)
	}
	return next
}

package history

import (
	"maps"
	"slices"

	"debrief/playbook"
)

// StateAt returns the state at a version, without executions that were forgotten later. A bullet with partly forgotten
// support is quarantined, unless a person has approved it since. Version 0 is the empty playbook. Newest is the last
// version of the log. For a later version StateAt returns a *VersionNotFoundError.
//
// The state has the bullets and the gate mode, but none of the other settings: no admission, judge, leading score, name or description. Read
// these from the log, such as with Store.PlaybookAt of package deltalog.
func StateAt(log Log, version uint64) (p *playbook.Playbook, newest uint64, err error) {
	survey, err := surveyLog(log)
	if err != nil {
		return nil, 0, err
	}
	if version > survey.newest {
		return nil, survey.newest, &VersionNotFoundError{version, survey.newest}
	}
	survey.keepVersions[version] = true
	r := survey.newRefolder()
	if err := r.run(log); err != nil {
		return nil, 0, err
	}
	s := r.snapshots[version]
	unapproved := s.unapproved(version, survey.newest+1, r.approved)
	return withoutErased(withQuarantine(&s.playbook, version, unapproved)), survey.newest, nil
}

// Forgetting is the state without some executions.
type Forgetting struct {
	Playbook *playbook.Playbook // the bullets and the gate mode, see StateAt
	Newest   uint64             // last version of the log
	// Matched counts the covers that match and were not forgotten before.
	Matched int
	// Mixed lists the bullets with partly forgotten support. They are quarantined.
	Mixed []playbook.BulletID
}

// Forget folds a log as if it did not cover the executions that match the selector, nor those that were forgotten
// before. Operations that have no other support are dropped. Votes and outcomes are removed one by one. A bullet is quarantined if
// a part of the support of one of its changes is forgotten.
//
// Forget does not leave out matching executions that are published later, see playbook.Forgotten.
func Forget(log Log, s playbook.Selector) (*Forgetting, error) {
	survey, err := surveyLog(log)
	if err != nil {
		return nil, err
	}
	version := survey.newest + 1 // of the forget change
	survey.forgets = append(survey.forgets, playbook.Forgotten{Selector: s, Version: version})
	r := survey.newRefolder()
	if err := r.run(log); err != nil {
		return nil, err
	}
	f := &Forgetting{Newest: survey.newest, Matched: r.matched[version]}
	for id, by := range r.state.mixed {
		if slices.Contains(by, version) && r.state.playbook.Bullet(id) != nil {
			f.Mixed = append(f.Mixed, id)
		}
	}
	slices.Sort(f.Mixed)
	f.Playbook = withoutErased(withQuarantine(&r.state.playbook, survey.newest, f.Mixed))
	return f, nil
}

// withQuarantine returns a state at a version in which the bullets with these sorted ids are quarantined.
func withQuarantine(p *playbook.Playbook, version uint64, ids []playbook.BulletID) *playbook.Playbook {
	return mapBullets(p, version, func(b *playbook.Bullet) *playbook.Bullet {
		if _, isListed := slices.BinarySearch(ids, b.ID); !isListed || !canQuarantine(b) {
			return b
		}
		changed := *b
		changed.Status = playbook.Quarantined
		return &changed
	})
}

// withoutErased returns a state without the bullets whose text was erased from the log. It is for the result of a fold: during the fold, later
// operations may need these bullets.
func withoutErased(p *playbook.Playbook) *playbook.Playbook {
	return mapBullets(p, p.Version(), func(b *playbook.Bullet) *playbook.Bullet {
		if playbook.IsErased(b.Content) {
			return nil
		}
		return b
	})
}

// mapBullets returns a state at a version with the bullets that change returns for the bullets of p, and with its gate mode. It leaves out a
// bullet if change returns nil.
func mapBullets(p *playbook.Playbook, version uint64, change func(*playbook.Bullet) *playbook.Bullet) *playbook.Playbook {
	out := playbook.Restore(version, p.LastMinted(), func(yield func(*playbook.Bullet) bool) {
		for b := range p.All() {
			if b = change(b); b != nil && !yield(b) {
				return
			}
		}
	})
	if mode, set := p.Gate(); set {
		out.SetGate(mode)
	}
	return out
}

// canQuarantine reports whether quarantine has an effect on a bullet: it is shown, or may be shown later. The gate may show a retired bullet
// again.
func canQuarantine(b *playbook.Bullet) bool {
	return b != nil && (b.Shown() || b.Status == playbook.Candidate || b.Status == playbook.Probation || b.Status == playbook.Retired)
}

// logSurvey contains the facts about a whole log that a refold needs before it starts.
type logSurvey struct {
	newest       uint64
	forgets      []playbook.Forgotten
	keepVersions map[uint64]bool // versions whose states are needed later, because a change restores them or the caller asks for them
}

// surveyLog reads a log for its newest version, forget changes and restored versions.
func surveyLog(log Log) (*logSurvey, error) {
	s := &logSurvey{keepVersions: map[uint64]bool{}}
	err := log(func(d *playbook.Delta) error {
		s.newest = d.Version
		if d.Forget != nil {
			s.forgets = append(s.forgets, d.Forgotten())
		}
		if d.RestoredVersion != nil {
			s.keepVersions[*d.RestoredVersion] = true
		}
		return nil
	})
	return s, err
}

// foldState is the state of a refold at a version. Besides the playbook it has the bullets that lost support, with the versions of the forget
// changes that removed it. An approval by a person counts only against earlier forget changes, so these versions are needed.
type foldState struct {
	playbook playbook.Playbook
	// mixed has the bullets with an operation of which a part of the support is forgotten, and those that were revived with the words of a forgotten
	// execution. Their texts may still contain forgotten words, so they are quarantined until a person approves them, see forgetOps and
	// reviveMixed.
	mixed map[playbook.BulletID][]uint64
	// dropped has the bullets whose Add has lost all support. The playbook does not have them. If another execution has requested such a bullet too,
	// by an Update, a Confirm or a rejected duplicate, the bullet is revived, see filterDropped and
	// reviveRejected.
	dropped map[playbook.BulletID]droppedBullet
	// votes has the votes of samples that differ from the log: a forgotten Tag or Retag leaves the vote before it, or an empty one, and a later
	// Retag starts from that. Only one of two reflections on a sample is forgotten if only that one was compared with a forgotten run.
	votes map[castVote]playbook.Vote
}

// droppedBullet has the Add of a dropped bullet, and the later operations that have other support. They are applied when the bullet is revived.
type droppedBullet struct {
	add         playbook.Op
	forgottenBy []uint64 // versions of the forget changes
	later       []deferredOp
}

// clone returns a copy that can be changed independently.
func (s *foldState) clone() *foldState {
	return &foldState{playbook: *s.playbook.Clone(), mixed: maps.Clone(s.mixed), dropped: maps.Clone(s.dropped), votes: maps.Clone(s.votes)}
}

// addMixed records that forget changes removed a part of the support of a bullet.
func (s *foldState) addMixed(id playbook.BulletID, by []uint64) {
	if len(by) > 0 {
		s.mixed[id] = union(s.mixed[id], by)
	}
}

// unapproved returns the sorted ids of the bullets of a state at a version that a later forget change, before the version until, has made mixed,
// and that no person has approved since that forget change. approved has the version of the last approval, by bullet.
func (s *foldState) unapproved(version, until uint64, approved map[playbook.BulletID]uint64) []playbook.BulletID {
	var ids []playbook.BulletID
	for id, by := range s.mixed {
		if slices.ContainsFunc(by, func(at uint64) bool { return version < at && at < until && approved[id] < at }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// union returns the sorted union of two lists. It is a new slice, because states share slices.
func union(a, b []uint64) []uint64 {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}

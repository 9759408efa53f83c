package history

import (
	"maps"
	"slices"

	"debrief/playbook"
)

// At is how the bullets were at a version, without what has been forgotten since: that does not come back, and what
// rests on it in part does so quarantined unless a person has approved it since. Version 0 is the empty playbook. Newest
// is the last version of the log.
func At(log Log, version uint64) (p *playbook.Playbook, newest uint64, err error) {
	past, err := survey(log)
	if err != nil {
		return nil, 0, err
	}
	if version > past.newest {
		return nil, past.newest, &NoVersionError{version, past.newest}
	}
	past.keep[version] = true
	r := past.refold()
	if err := r.run(log); err != nil {
		return nil, 0, err
	}
	then := r.kept[version]
	hide := then.pending(version, past.newest+1, r.approved)
	return quarantined(&then.playbook, version, hide), past.newest, nil
}

// Forgetting is how the bullets would stand had some executions never been.
type Forgetting struct {
	Playbook *playbook.Playbook
	Newest   uint64 // last version of the log
	// Matched counts what the log covers that is to be forgotten and was not before.
	Matched int
	// Mixed are the bullets that rest on what is to be forgotten and on other things as well: quarantined.
	Mixed []playbook.BulletID
}

// Without folds a log as if what the selector matches, and what was forgotten before, had never been covered. Operations
// that rest on nothing else go; votes and outcomes are told one from the other; bullets that something changed which rests on it in
// part are quarantined. A forgetting reaches what came before it: an execution that matches and comes later counts.
func Without(log Log, s playbook.Selector) (*Forgetting, error) {
	past, err := survey(log)
	if err != nil {
		return nil, err
	}
	now := past.newest + 1
	past.forgets = append(past.forgets, forget{s, now})
	r := past.refold()
	if err := r.run(log); err != nil {
		return nil, err
	}
	f := &Forgetting{Newest: past.newest, Matched: r.matched[now]}
	for id, by := range r.state.mixed {
		if slices.Contains(by, now) && r.state.playbook.Bullet(id) != nil {
			f.Mixed = append(f.Mixed, id)
		}
	}
	slices.Sort(f.Mixed)
	f.Playbook = quarantined(&r.state.playbook, past.newest, f.Mixed)
	return f, nil
}

// quarantined is a state at a version with some bullets, by id, not shown until a person has looked at them.
func quarantined(p *playbook.Playbook, version uint64, ids []playbook.BulletID) *playbook.Playbook {
	mode, set := p.Gate()
	restored := playbook.Restore(version, p.LastMinted(), func(yield func(*playbook.Bullet) bool) {
		for b := range p.All() {
			if _, hide := slices.BinarySearch(ids, b.ID); hide && hideable(b) {
				hidden := *b
				hidden.Status = playbook.Quarantined
				b = &hidden
			}
			if !yield(b) {
				return
			}
		}
	})
	if set {
		restored.SetGate(mode)
	}
	return restored
}

// hideable reports whether quarantine takes anything from a bullet: it is shown, or may come to be.
func hideable(b *playbook.Bullet) bool {
	return b != nil && (b.Shown() || b.Status == playbook.Candidate || b.Status == playbook.Probation)
}

// past is what has to be known of a whole log before it is folded anew.
type past struct {
	newest  uint64
	forgets []forget
	keep    map[uint64]bool // versions that were restored
}

// forget is a forgetting. It reaches what came before it.
type forget struct {
	what playbook.Selector
	at   uint64
}

// reaches reports whether what a version covers is forgotten.
func (f forget) reaches(version uint64, e *playbook.Evidence) bool {
	return version < f.at && f.what.Matches(e)
}

func survey(log Log) (*past, error) {
	p := &past{keep: map[uint64]bool{}}
	err := log(func(d *playbook.Delta) error {
		p.newest = d.Version
		if d.Forgets != nil {
			p.forgets = append(p.forgets, forget{*d.Forgets, d.Version})
		}
		if d.Restores != nil {
			p.keep[*d.Restores] = true
		}
		return nil
	})
	return p, err
}

// state is a fold under way.
type state struct {
	playbook playbook.Playbook
	// mixed are bullets that rest on what is forgotten and on other things, with the versions of the forgettings.
	mixed map[playbook.BulletID][]uint64
	// dropped are bullets that now never were.
	dropped map[playbook.BulletID]dropped
}

// dropped is a bullet that never was: what would have made it, what took that back, and what was done to it that rests
// on other things and counts should it turn out that those are enough to make it.
type dropped struct {
	made  playbook.Op
	by    []uint64
	later []held
}

func (s *state) clone() *state {
	return &state{*s.playbook.Clone(), maps.Clone(s.mixed), maps.Clone(s.dropped)}
}

// mix notes that a bullet rests on what some forgettings took, too.
func (s *state) mix(id playbook.BulletID, by []uint64) {
	if len(by) > 0 {
		s.mixed[id] = union(s.mixed[id], by)
	}
}

// pending are the mixed bullets of a state at a version that forgettings between it and a later one would have
// quarantined, and that no person has approved after those.
func (s *state) pending(version, until uint64, approved map[playbook.BulletID]uint64) []playbook.BulletID {
	var ids []playbook.BulletID
	for id, by := range s.mixed {
		if slices.ContainsFunc(by, func(at uint64) bool { return version < at && at < until && approved[id] < at }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// union is a new slice, so that states can share theirs.
func union(a, b []uint64) []uint64 {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}

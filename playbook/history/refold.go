package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"debrief/playbook"
)

// refolder folds a log as if it did not cover the forgotten executions.
type refolder struct {
	logSurvey
	matched       map[uint64]int // by version of a forget change: the number of covers that this change was the first to match
	state         *foldState
	parts         playbook.ChangeAssembler
	version       uint64                       // of the delta that is folded
	snapshots     map[uint64]*foldState        // the states at the versions in keepVersions
	approved      map[playbook.BulletID]uint64 // the last version in which a person approved a bullet
	covers        []playbook.Cover             // of the delta that replaces the current one
	logged        *playbook.Playbook           // the state with all executions; nil if nothing is forgotten
	loggedContent map[playbook.BulletID]string // the contents that the operations of the current change set in the log
	keptContent   map[playbook.BulletID]string // the contents that the remaining operations of the current change set
}

func (p *logSurvey) newRefolder() *refolder {
	empty := &foldState{mixed: map[playbook.BulletID][]uint64{}, dropped: map[playbook.BulletID]droppedBullet{}, votes: map[castVote]playbook.Vote{}}
	r := &refolder{
		logSurvey: *p, matched: map[uint64]int{}, state: empty,
		snapshots: map[uint64]*foldState{0: empty.clone()}, approved: map[playbook.BulletID]uint64{},
	}
	if len(p.forgets) > 0 {
		r.logged = new(playbook.Playbook)
	}
	return r
}

// run folds the log up to the newest version of the survey.
func (r *refolder) run(log Log) error {
	return log(func(d *playbook.Delta) error {
		if d.Version > r.newest { // the delta was appended after the survey
			return nil
		}
		return r.apply(d)
	})
}

// apply folds one delta. In its place it applies a delta of the same version with the remaining operations.
func (r *refolder) apply(d *playbook.Delta) error {
	r.version = d.Version
	filtered := playbook.Delta{Version: d.Version, Time: d.Time}
	if c := change(r.parts.Add(d)); c != nil { // d is the last delta of the change
		r.covers = slices.Clip(d.Covers)
		ops, err := r.remainingOps(c)
		if err != nil {
			return fmt.Errorf("version %d: %w", d.Version, err)
		}
		filtered.Ops, filtered.Covers = ops, r.covers
		for _, part := range c {
			filtered.Gate = cmp.Or(part.Gate, filtered.Gate) // the only setting of a fold, see StateAt
		}
	}
	changed, err := r.state.playbook.Apply(&filtered)
	if err != nil {
		return err
	}
	if err := r.renumberExperiments(d, changed); err != nil {
		return err
	}
	if r.keepVersions[d.Version] {
		r.snapshots[d.Version] = r.state.clone()
	}
	return nil
}

// renumberExperiments gives the experiments of changed bullets the numbers that they have in the log, because outcomes refer to an experiment by
// its number, and the fold lacks some operations that began experiments. A bullet with another content than in the log gets a number that
// no outcome has. So an outcome counts only if the contents are the same.
func (r *refolder) renumberExperiments(d *playbook.Delta, changed []playbook.BulletID) error {
	if r.logged == nil {
		return nil
	}
	loggedChanges, err := r.logged.Apply(d)
	if err != nil {
		return err
	}
	for _, id := range slices.Concat(changed, loggedChanges) {
		folded, logged := r.state.playbook.Bullet(id), r.logged.Bullet(id)
		if folded == nil || logged == nil {
			continue
		}
		n := logged.CurrentExperiment().Number
		if folded.Content != logged.Content {
			n++
		}
		r.state.playbook.SetExperimentNumber(id, n)
	}
	return nil
}

// remainingOps returns the operations of a change without the forgotten executions.
func (r *refolder) remainingOps(c change) (ops []playbook.Op, err error) {
	d := c.last()
	switch {
	case d.RestoredVersion != nil:
		return r.restoreOps(c, *d.RestoredVersion)
	case d.Forget != nil:
		return r.forgetOps(c), nil
	}
	forgotten := r.forgottenCovers(d)
	r.loggedContent, r.keptContent = map[playbook.BulletID]string{}, map[playbook.BulletID]string{}
	if d.Author != Curator {
		r.addApprovals(c)
	}
	for _, part := range c {
		if r.logged == nil {
			ops = append(ops, part.Ops...)
			continue
		}
		for _, op := range part.Ops {
			remaining := r.filterOp(op, r.supportOf(part, &op, forgotten), forgotten)
			addContent(r.loggedContent, op)
			addContent(r.keptContent, remaining...)
			ops = append(ops, remaining...)
		}
	}
	for _, part := range c {
		for i := range part.Rejected {
			j := &part.Rejected[i]
			ops = append(ops, r.reviveRejected(j, r.supportOf(part, &j.Op, forgotten))...)
		}
	}
	return ops, nil
}

// addContent records the content that operations set.
func addContent(contents map[playbook.BulletID]string, ops ...playbook.Op) {
	for i := range ops {
		if ops[i].Content != "" {
			contents[ops[i].Bullet] = ops[i].Content
		}
	}
}

// loggedContentOf returns the content of a bullet in the log at this point.
func (r *refolder) loggedContentOf(id playbook.BulletID) string {
	return contentOf(r.loggedContent, r.logged, id)
}

// contentOf returns the content of a bullet: the one that the current change has set, else that of p, or "".
func contentOf(set map[playbook.BulletID]string, p *playbook.Playbook, id playbook.BulletID) string {
	if text := set[id]; text != "" {
		return text
	}
	if b := p.Bullet(id); b != nil {
		return b.Content
	}
	return ""
}

// hasLoggedContent reports whether a bullet has the same content in this fold as in the log at this point.
func (r *refolder) hasLoggedContent(id playbook.BulletID) bool {
	return playbook.ContentKeyOf(r.loggedContentOf(id)) == playbook.ContentKeyOf(contentOf(r.keptContent, &r.state.playbook, id))
}

// forgottenCovers returns for each cover the version of the first forget change that matches it, or 0. It counts these matches in matched.
func (r *refolder) forgottenCovers(d *playbook.Delta) (forgotten []uint64) {
	forgotten = make([]uint64, len(d.Covers))
	for i, c := range d.Covers {
		for _, f := range r.forgets {
			if f.Matches(d.Version, c.Evidence) {
				forgotten[i] = f.Version
				r.matched[f.Version]++
				break
			}
		}
	}
	return forgotten
}

// addApprovals records the bullets that a person approved.
func (r *refolder) addApprovals(c change) {
	for _, part := range c {
		for _, op := range part.Ops {
			if op.Kind == playbook.SetStatus && (op.Status == playbook.Active || op.Status == "") {
				r.approved[op.Bullet] = c.last().Version
			}
		}
	}
}

// forgetOps returns the operations of a forget change: it quarantines the bullets whose texts may contain words that it forgets
// (foldState.mixed). It has nothing to remove, because the fold does not contain the forgotten executions.
func (r *refolder) forgetOps(c change) []playbook.Op {
	ops := statusOps(c)
	for id, by := range r.state.mixed {
		if slices.Contains(by, r.version) && canQuarantine(r.state.playbook.Bullet(id)) {
			ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Quarantined})
		}
	}
	return ops
}

// statusOps returns the status changes of a restore or forget change. Such a change has them if it also makes the gate less strict.
func statusOps(c change) (ops []playbook.Op) {
	for _, part := range c {
		for _, op := range part.Ops {
			if op.Kind == playbook.SetStatus {
				ops = append(ops, op)
			}
		}
	}
	return ops
}

// restoreOps returns the operations that restore a version without the forgotten executions.
func (r *refolder) restoreOps(c change, version uint64) ([]playbook.Op, error) {
	snapshot, ok := r.snapshots[version]
	if !ok {
		return nil, fmt.Errorf("restore version %d: not an earlier version", version)
	}
	// In the snapshot, the bullets that a later forget change has made mixed are not in quarantine yet.
	unapproved := snapshot.unapproved(version, c.last().Version, r.approved)
	restored := withQuarantine(&snapshot.playbook, version, unapproved)
	ops := append(statusOps(c), OpsBetween(&r.state.playbook, restored)...)
	r.state.mixed, r.state.dropped, r.state.votes = maps.Clone(snapshot.mixed), maps.Clone(snapshot.dropped), maps.Clone(snapshot.votes)
	return ops, nil
}

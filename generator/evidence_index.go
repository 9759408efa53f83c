package generator

import (
	"cmp"
	"slices"

	"debrief/playbook"
	"debrief/playbook/recall"
)

// Limits of an evidenceIndex.
const (
	// maxEvidenceTasks is the maximum number of tasks. Beyond it the oldest tasks are dropped. A task takes about 1 KiB.
	maxEvidenceTasks = 20_000
	// maxPerBullet is the maximum number of tasks that support one bullet, the newest.
	maxPerBullet = 64
	// neighbours is the number of tasks that vote for a query.
	neighbours = 48
)

// The kinds of links between tasks and bullets.
const (
	supports = iota
	cites    // with any outcome
	linkKinds
)

// evidenceIndex holds the evidence of one playbook. The zero value is empty. Reads may run concurrently, Apply must run alone.
//
// It finds the bullets of a playbook by past tasks. A bullet is found for a query if it helped on similar
// tasks, or was learned from them, even if its own words do not occur in the query.
//
// The evidence is in the log of the playbook: each delta lists the executions behind its operations, with the beginning
// of their questions. The index folds deltas. A task supports a bullet if its execution
//
//   - led to the bullet (ADD, UPDATE), or asked for the same content again (CONFIRM, or a rejected duplicate), or
//   - cited the bullet with success (TAG with a helpful vote). Later feedback (RETAG) adds or withdraws the support.
//
// A bullet applies to the tasks that it is supported by, and also to those that cited it without success (EXPOSURES). Experiments
// need these, too: a bullet that is found only where it helped would never be compared where it harms.
//
// For a query the nearest tasks are found by BM25, and each votes for the bullets that it supports. This is the
// classification by nearest neighbours of Fix and Hodges (1951), with votes weighted by similarity as proposed by Dudani,
// "The distance-weighted k-nearest-neighbor rule" (1976).
//
// It reads no clock and no network. The same deltas in the same order give the same results.
type evidenceIndex struct {
	words   recall.WordIndex         // the questions, by sample
	tasks   map[string]*evidenceTask // by sample
	links   [linkKinds]map[playbook.BulletID][]string
	oldest  []string      // samples in the order of their first link; may contain dropped ones
	pending []playbook.Op // operations of a change whose last delta is not read yet
	change  string        // id of that change
}

// evidenceTask is an execution that supports or cites bullets.
type evidenceTask struct {
	of      playbook.Evidence // only the fields that a selector of forgotten executions compares
	bullets [linkKinds][]playbook.BulletID
}

// evidenceHit is a bullet with the votes of the nearest tasks. One task can vote for several bullets.
type evidenceHit struct {
	Bullet  playbook.BulletID
	Score   float64 // of the votes of tasks that support bullets, the share for this bullet, from 0 to 1
	Applies float64 // of the votes of all tasks for the bullets that apply to them, the share for this bullet, from 0 to 1
}

// Count returns the number of tasks that support a bullet, at most maxPerBullet.
func (x *evidenceIndex) Count(id playbook.BulletID) int { return len(x.links[supports][id]) }

// CountApplies returns the number of tasks that a bullet applies to, at most twice maxPerBullet.
func (x *evidenceIndex) CountApplies(id playbook.BulletID) int {
	n := len(x.links[cites][id])
	for _, sample := range x.links[supports][id] {
		if !slices.Contains(x.tasks[sample].bullets[cites], id) {
			n++
		}
	}
	return n
}

// bullets returns the bullets with at least one task, in no order.
func (x *evidenceIndex) bullets() (ids []string) {
	for kind, all := range x.links {
		for id := range all {
			if kind == supports || len(x.links[supports][id]) == 0 {
				ids = append(ids, string(id))
			}
		}
	}
	return ids
}

// Nearest returns up to limit bullets that the tasks nearest to the query support, the best first, and then those that only apply to
// these tasks. Bullets with equal scores are ordered by id. It returns nil if no task shares a word with the query.
func (x *evidenceIndex) Nearest(query string, limit int) []evidenceHit {
	matches := x.words.Top(query, 2*neighbours) // more, because not every task supports a bullet
	if len(matches) == 0 {
		return nil
	}
	votes := make(map[playbook.BulletID]evidenceHit)
	var sum evidenceHit // of all votes
	supporting := 0     // tasks that have voted for Score
	for i, m := range matches {
		weight := m.Score * m.Score
		bullets := &x.tasks[m.Key].bullets
		if supporting < neighbours && len(bullets[supports]) > 0 {
			supporting++
			sum.Score += weight
			for _, id := range bullets[supports] {
				v := votes[id]
				v.Score += weight
				votes[id] = v
			}
		}
		if i >= neighbours {
			continue
		}
		sum.Applies += weight
		for kind, list := range bullets {
			for _, id := range list {
				if kind == cites && slices.Contains(bullets[supports], id) {
					continue // it has the vote already
				}
				v := votes[id]
				v.Applies += weight
				votes[id] = v
			}
		}
	}
	hits := make([]evidenceHit, 0, len(votes))
	for id, v := range votes {
		if v.Score > 0 {
			v.Score /= sum.Score
		}
		hits = append(hits, evidenceHit{id, v.Score, v.Applies / sum.Applies})
	}
	slices.SortFunc(hits, func(a, b evidenceHit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Applies, a.Applies), cmp.Compare(a.Bullet, b.Bullet))
	})
	return hits[:min(limit, len(hits))]
}

// Apply folds the next delta of the log. It ignores operations without evidence, such as edits by people.
func (x *evidenceIndex) Apply(d *playbook.Delta) {
	if d.ChangeID != x.change || d.ChangeID == "" {
		x.pending, x.change = nil, d.ChangeID
	}
	if d.More { // the operations take effect with the last delta of the change, which has the covers
		x.pending = append(x.pending, d.Ops...)
		return
	}
	for i := range x.pending {
		x.apply(&x.pending[i], d.Covers)
	}
	x.pending, x.change = nil, ""
	for i := range d.Ops {
		x.apply(&d.Ops[i], d.Covers)
	}
	for i := range d.Rejected {
		if r := &d.Rejected[i]; r.DuplicateOf != "" {
			x.link(supports, r.DuplicateOf, r.Op.Support, d.Covers)
		}
	}
	if d.Forget != nil {
		x.forget(d.Forget)
	}
}

func (x *evidenceIndex) apply(op *playbook.Op, covers []playbook.Cover) {
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Confirm:
		x.link(supports, op.Bullet, op.Support, covers)
	case playbook.Tag, playbook.Retag:
		if op.Helpful > 0 {
			x.link(supports, op.Bullet, op.Support, covers)
		} else if op.OldVote == playbook.Helpful {
			x.withdraw(supports, op.Bullet, op.Support, covers)
		}
	case playbook.Merge:
		x.link(supports, op.Bullet, op.Support, covers)
		for _, source := range op.Sources {
			for _, sample := range x.links[supports][source] {
				x.add(supports, op.Bullet, sample)
			}
			x.drop(source) // the merged text has no outcomes of its sources
		}
	case playbook.AddExposures:
		for i := range op.Exposures {
			if !op.Exposures[i].Cited || i >= len(op.Support) {
				continue
			}
			support := op.Support[i : i+1]
			if op.Exposures[i].Undo {
				x.withdraw(cites, op.Bullet, support, covers)
			} else {
				x.link(cites, op.Bullet, support, covers)
			}
		}
	case playbook.Remove:
		x.drop(op.Bullet)
	}
}

// link links the executions of covers to a bullet.
func (x *evidenceIndex) link(kind int, id playbook.BulletID, support []int, covers []playbook.Cover) {
	for _, i := range support {
		if i < 0 || i >= len(covers) || covers[i].Evidence == nil {
			continue
		}
		e := covers[i].Evidence
		if e.Sample == "" || e.Excerpt == "" {
			continue
		}
		if x.tasks[e.Sample] == nil {
			x.addTask(e)
		}
		x.add(kind, id, e.Sample)
	}
}

// withdraw removes the links of executions whose outcome was changed.
func (x *evidenceIndex) withdraw(kind int, id playbook.BulletID, support []int, covers []playbook.Cover) {
	for _, i := range support {
		if i >= 0 && i < len(covers) && covers[i].Evidence != nil {
			x.unlink(kind, id, covers[i].Evidence.Sample)
		}
	}
}

// addTask adds a task without bullets. It drops the oldest task if there are too many.
func (x *evidenceIndex) addTask(e *playbook.Evidence) {
	if x.tasks == nil {
		x.tasks = make(map[string]*evidenceTask)
		for kind := range x.links {
			x.links[kind] = make(map[playbook.BulletID][]string)
		}
	}
	for len(x.tasks) >= maxEvidenceTasks {
		x.dropTask(x.oldest[0])
		x.oldest = x.oldest[1:]
	}
	if len(x.oldest) > 2*maxEvidenceTasks { // most of them were dropped
		x.oldest = slices.DeleteFunc(slices.Clone(x.oldest), func(sample string) bool { return x.tasks[sample] == nil })
	}
	of := playbook.Evidence{ // the fields that selectors compare
		Execution: e.Execution, Sample: e.Sample, Session: e.Session, Source: e.Source, Owner: e.Owner, User: e.User, Inferred: e.Inferred,
	}
	x.tasks[e.Sample] = &evidenceTask{of: of}
	x.oldest = append(x.oldest, e.Sample)
	x.words.Put(e.Sample, e.Excerpt)
}

// add links a task to a bullet. Of too many tasks of a bullet it drops the oldest.
func (x *evidenceIndex) add(kind int, id playbook.BulletID, sample string) {
	t := x.tasks[sample]
	if slices.Contains(t.bullets[kind], id) {
		return
	}
	t.bullets[kind] = append(t.bullets[kind], id)
	list := append(x.links[kind][id], sample)
	x.links[kind][id] = list
	if len(list) > maxPerBullet {
		x.unlink(kind, id, list[0])
	}
}

// unlink removes a task from a bullet, and the task if it has no other bullet.
func (x *evidenceIndex) unlink(kind int, id playbook.BulletID, sample string) {
	t := x.tasks[sample]
	if t == nil {
		return
	}
	at := slices.Index(t.bullets[kind], id)
	if at < 0 {
		return
	}
	t.bullets[kind] = slices.Delete(t.bullets[kind], at, at+1)
	x.removeSample(kind, id, sample)
	if len(t.bullets[supports])+len(t.bullets[cites]) == 0 {
		x.removeTask(sample)
	}
}

func (x *evidenceIndex) removeSample(kind int, id playbook.BulletID, sample string) {
	list := x.links[kind][id]
	if at := slices.Index(list, sample); at >= 0 {
		list = slices.Delete(list, at, at+1)
	}
	x.links[kind][id] = list
	if len(list) == 0 {
		delete(x.links[kind], id)
	}
}

// drop removes a bullet.
func (x *evidenceIndex) drop(id playbook.BulletID) {
	for kind := range linkKinds {
		for _, sample := range slices.Clone(x.links[kind][id]) {
			x.unlink(kind, id, sample)
		}
	}
}

// dropTask removes a task from all its bullets; it may be unknown.
func (x *evidenceIndex) dropTask(sample string) {
	t := x.tasks[sample]
	if t == nil {
		return
	}
	for kind, list := range t.bullets {
		for _, id := range list {
			x.removeSample(kind, id, sample)
		}
	}
	x.removeTask(sample)
}

func (x *evidenceIndex) removeTask(sample string) {
	delete(x.tasks, sample)
	x.words.Drop(sample)
}

// forget removes the tasks that match a selector, as the playbook forgets them.
func (x *evidenceIndex) forget(s *playbook.Selector) {
	for _, sample := range slices.Clone(x.oldest) {
		if t := x.tasks[sample]; t != nil && s.Matches(&t.of) {
			x.dropTask(sample)
		}
	}
}

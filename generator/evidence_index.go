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
	// maxPerBullet is the maximum number of tasks that support a bullet, and of those that cite it. Only the newest stay.
	maxPerBullet = 64
	// neighbours is the number of tasks that vote for a query.
	neighbours = 48
	// newestCommon is the number of tasks that a word finds if most tasks contain it: the newest ones. Without this limit a query would read
	// thousands of tasks that are written alike.
	newestCommon = 8 * neighbours
)

// linkKind is the kind of a link between a task and a bullet.
type linkKind int

const (
	supports  linkKind = iota // the task helps the bullet, see evidenceIndex
	cites                     // the answer cited the bullet, with any outcome
	linkKinds                 // number of kinds
)

// evidenceIndex finds the bullets of a playbook by past tasks. A bullet is found for a query if it helped on similar
// tasks, or was learned from them, even if its own words do not occur in the query. The zero value is empty. Reads may run concurrently, applyDelta
// must run alone.
//
// The evidence is in the log of the playbook: each delta lists the executions behind its operations, with the beginning
// of their questions. A task supports a bullet if its execution
//
//   - led to the bullet (ADD, UPDATE), or asked for the same content again (CONFIRM, or a rejected duplicate), or
//   - cited the bullet with success (TAG with a helpful vote). Later feedback (RETAG) adds or withdraws the support.
//
// A bullet applies to the tasks that support it, and also to those that cited it without success (EXPOSURES). Experiments need the latter
// too: a bullet that is found only where it helped would never be compared where it harms.
//
// For a query, BM25 finds the nearest tasks, and each votes for the bullets that it supports. This is the
// classification by nearest neighbours of Fix and Hodges (1951), with votes weighted by similarity as proposed by Dudani,
// "The distance-weighted k-nearest-neighbor rule" (1976).
//
// The same deltas in the same order give the same results.
type evidenceIndex struct {
	words   recall.WordIndex         // the questions, by sample
	tasks   map[string]*evidenceTask // by sample
	links   [linkKinds]map[playbook.BulletID][]string
	oldest  []*evidenceTask // in the order of their first link; it may contain dropped tasks
	changes playbook.ChangeAssembler
}

// evidenceTask is a task that supports or cites bullets.
type evidenceTask struct {
	evidence playbook.Evidence // only the fields that a selector of forgotten executions compares
	bullets  [linkKinds][]playbook.BulletID
}

// evidenceHit is a bullet with the votes of the nearest tasks. One task can vote for several bullets.
type evidenceHit struct {
	Bullet  playbook.BulletID
	Score   float64 // weight of the tasks that support the bullet, as a share of the tasks that support any bullet; 0 to 1
	Applies float64 // weight of the tasks that the bullet applies to, as a share of all tasks; 0 to 1
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
	for id := range x.links[supports] {
		ids = append(ids, string(id))
	}
	for id := range x.links[cites] {
		if x.Count(id) == 0 {
			ids = append(ids, string(id))
		}
	}
	return ids
}

// Nearest returns up to limit bullets that the tasks nearest to the query support, the best first, and then those that only apply to
// these tasks. Bullets with equal scores are ordered by id. It returns nil if no task shares a word with the query.
func (x *evidenceIndex) Nearest(query string, limit int) []evidenceHit {
	// The nearest neighbours tasks vote for Applies, and the nearest neighbours that support a bullet vote for Score. So more tasks are needed.
	matches := x.words.Top(query, 2*neighbours)
	if len(matches) == 0 {
		return nil
	}
	votes := make(map[playbook.BulletID]evidenceHit) // weights, not yet shares
	var sum evidenceHit                              // of the weights of all tasks
	supporting := 0                                  // number of tasks that have voted for Score
	for i, m := range matches {
		weight := m.Score * m.Score
		t := x.tasks[m.Key]
		if supporting < neighbours && len(t.bullets[supports]) > 0 {
			supporting++
			sum.Score += weight
			for _, id := range t.bullets[supports] {
				v := votes[id]
				v.Score += weight
				votes[id] = v
			}
		}
		if i >= neighbours {
			continue
		}
		sum.Applies += weight
		for _, id := range t.applicable() {
			v := votes[id]
			v.Applies += weight
			votes[id] = v
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

// applicable returns the bullets that apply to the task, each once.
func (t *evidenceTask) applicable() []playbook.BulletID {
	all := slices.Clone(t.bullets[supports])
	for _, id := range t.bullets[cites] {
		if !slices.Contains(t.bullets[supports], id) {
			all = append(all, id)
		}
	}
	return all
}

// applyDelta folds the next delta of the log. It ignores operations without evidence, such as edits by people.
func (x *evidenceIndex) applyDelta(d *playbook.Delta) {
	for _, part := range x.changes.Add(d) { // none until the last delta of a change, which has the covers
		for i := range part.Ops {
			x.applyOp(&part.Ops[i], d.Covers)
		}
		for i := range part.Rejected {
			if r := &part.Rejected[i]; r.DuplicateOf != "" {
				x.link(supports, r.DuplicateOf, r.Op.Support, d.Covers)
			}
		}
	}
	if d.Forget != nil && !d.More {
		x.forget(d.Forget)
	}
}

// applyOp folds an operation of a change with these covers.
func (x *evidenceIndex) applyOp(op *playbook.Op, covers []playbook.Cover) {
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
			x.drop(source) // with its cites, because the merged text has no outcomes yet
		}
	case playbook.AddExposures: // Support[i] refers to the execution of Exposures[i]
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

// link links the tasks of covers to a bullet. support has indices into covers.
func (x *evidenceIndex) link(kind linkKind, id playbook.BulletID, support []int, covers []playbook.Cover) {
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

// withdraw removes the links of the tasks of covers to a bullet, because their outcomes have changed.
func (x *evidenceIndex) withdraw(kind linkKind, id playbook.BulletID, support []int, covers []playbook.Cover) {
	for _, i := range support {
		if i >= 0 && i < len(covers) && covers[i].Evidence != nil {
			x.unlink(kind, id, covers[i].Evidence.Sample)
		}
	}
}

// addTask adds a task without bullets. It drops the oldest task if there are too many.
func (x *evidenceIndex) addTask(e *playbook.Evidence) {
	if x.tasks == nil {
		x.words.IgnoreCommon, x.words.NewestCommon = true, newestCommon
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
		x.oldest = slices.DeleteFunc(slices.Clone(x.oldest), x.isDropped)
	}
	t := &evidenceTask{evidence: playbook.Evidence{
		Execution: e.Execution, Sample: e.Sample, Session: e.Session, Source: e.Source, Owner: e.Owner, User: e.User, Inferred: e.Inferred,
	}}
	x.tasks[e.Sample] = t
	x.oldest = append(x.oldest, t)
	x.words.Put(e.Sample, e.Excerpt)
}

// add links a task to a bullet. If the bullet has too many links of the kind, it removes the oldest one.
func (x *evidenceIndex) add(kind linkKind, id playbook.BulletID, sample string) {
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

// unlink removes a link of a task to a bullet, and the task itself if it has no other link.
func (x *evidenceIndex) unlink(kind linkKind, id playbook.BulletID, sample string) {
	t := x.tasks[sample]
	if t == nil {
		return
	}
	i := slices.Index(t.bullets[kind], id)
	if i < 0 {
		return
	}
	t.bullets[kind] = slices.Delete(t.bullets[kind], i, i+1)
	x.removeSample(kind, id, sample)
	if len(t.bullets[supports])+len(t.bullets[cites]) == 0 {
		x.removeTask(sample)
	}
}

// removeSample removes a sample from the list of a bullet in links.
func (x *evidenceIndex) removeSample(kind linkKind, id playbook.BulletID, sample string) {
	list := x.links[kind][id]
	if i := slices.Index(list, sample); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	x.links[kind][id] = list
	if len(list) == 0 {
		delete(x.links[kind], id)
	}
}

// drop removes all links of a bullet.
func (x *evidenceIndex) drop(id playbook.BulletID) {
	for kind := range linkKinds {
		for _, sample := range slices.Clone(x.links[kind][id]) {
			x.unlink(kind, id, sample)
		}
	}
}

// dropTask removes a task with all its links. It does nothing for a dropped task.
func (x *evidenceIndex) dropTask(t *evidenceTask) {
	if x.isDropped(t) {
		return
	}
	sample := t.evidence.Sample
	for kind, list := range t.bullets {
		for _, id := range list {
			x.removeSample(linkKind(kind), id, sample)
		}
	}
	x.removeTask(sample)
}

// isDropped reports whether a task was dropped. Another task of the same sample may have been added since.
func (x *evidenceIndex) isDropped(t *evidenceTask) bool { return x.tasks[t.evidence.Sample] != t }

// removeTask removes a task without links.
func (x *evidenceIndex) removeTask(sample string) {
	delete(x.tasks, sample)
	x.words.Drop(sample)
}

// forget removes the tasks that match a selector, as the playbook forgets them.
func (x *evidenceIndex) forget(s *playbook.Selector) {
	for _, t := range x.oldest {
		if s.Matches(&t.evidence) {
			x.dropTask(t)
		}
	}
}

// Package evidence finds the bullets of a playbook by past tasks. A bullet is found for a query if it helped on similar
// tasks, or was learned from them, even if its own words do not occur in the query.
//
// The evidence is in the log of the playbook: each delta lists the executions behind its operations, with the beginning
// of their questions. An Index folds deltas. A task supports a bullet if its execution
//
//   - led to the bullet (ADD, UPDATE), or asked for the same content again (CONFIRM, or a rejected duplicate), or
//   - cited the bullet with success (TAG with a helpful vote). Later feedback (RETAG) adds or withdraws the support.
//
// For a query the nearest tasks are found by BM25, and each votes for the bullets that it supports. This is the
// classification by nearest neighbours of Fix and Hodges (1951), with votes weighted by similarity as proposed by Dudani,
// "The distance-weighted k-nearest-neighbor rule" (1976).
//
// The package reads no clock and no network. The same deltas in the same order give the same results.
package evidence

import (
	"cmp"
	"slices"

	"debrief/playbook"
	"debrief/playbook/recall"
)

// Limits of an Index.
const (
	// MaxTasks is the maximum number of tasks. Beyond it the oldest tasks are dropped. A task takes about 1 KiB.
	MaxTasks = 20_000
	// MaxPerBullet is the maximum number of tasks that support one bullet, the newest.
	MaxPerBullet = 64
	// neighbours is the number of tasks that vote for a query.
	neighbours = 48
)

// Index holds the evidence of one playbook. The zero value is empty. Reads may run concurrently, Apply must run alone.
type Index struct {
	words   recall.WordIndex // the questions, by sample
	tasks   map[string]*task // by sample
	bullets map[playbook.BulletID][]string
	oldest  []string // samples in the order of their first support; may contain dropped ones
	pending []playbook.Op
	change  string // id of the change that pending belongs to
}

// task is an execution that supports bullets.
type task struct {
	of      playbook.Evidence // only its names, to forget it
	bullets []playbook.BulletID
}

// Hit is a bullet with the votes of the nearest tasks.
type Hit struct {
	Bullet playbook.BulletID
	// Score is the share of the votes that are for the bullet, above 0 and at most 1. One task can vote for several bullets.
	Score float64
}

// Stats describe the contents of an Index.
type Stats struct {
	Tasks   int
	Bullets int // with at least one task
}

// Stats returns the size of the index.
func (x *Index) Stats() Stats { return Stats{len(x.tasks), len(x.bullets)} }

// Count returns the number of tasks that support a bullet, at most MaxPerBullet.
func (x *Index) Count(id playbook.BulletID) int { return len(x.bullets[id]) }

// Nearest returns up to limit bullets that the tasks nearest to the query support, the best first. Bullets with equal
// scores are ordered by id. It returns nil if no task shares a word with the query.
func (x *Index) Nearest(query string, limit int) []Hit {
	matches := x.words.Top(query, neighbours)
	if len(matches) == 0 {
		return nil
	}
	votes, sum := make(map[playbook.BulletID]float64), 0.0
	for _, m := range matches {
		weight := m.Score * m.Score
		sum += weight
		for _, id := range x.tasks[m.Key].bullets {
			votes[id] += weight
		}
	}
	hits := make([]Hit, 0, len(votes))
	for id, v := range votes {
		hits = append(hits, Hit{id, v / sum})
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Bullet, b.Bullet)) })
	return hits[:min(limit, len(hits))]
}

// Apply folds the next delta of the log. It ignores operations without evidence, such as those of people.
func (x *Index) Apply(d *playbook.Delta) {
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
			x.support(r.DuplicateOf, r.Op.Support, d.Covers)
		}
	}
	if d.Forget != nil {
		x.forget(d.Forget)
	}
}

func (x *Index) apply(op *playbook.Op, covers []playbook.Cover) {
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Confirm:
		x.support(op.Bullet, op.Support, covers)
	case playbook.Tag, playbook.Retag:
		if op.Helpful > 0 {
			x.support(op.Bullet, op.Support, covers)
		} else if op.OldVote == playbook.Helpful {
			x.withdraw(op.Bullet, op.Support, covers)
		}
	case playbook.Merge:
		x.support(op.Bullet, op.Support, covers)
		for _, source := range op.Sources {
			for _, sample := range x.bullets[source] {
				x.link(op.Bullet, sample)
			}
			x.drop(source)
		}
	case playbook.Remove:
		x.drop(op.Bullet)
	}
}

// support records that the executions of covers support a bullet.
func (x *Index) support(id playbook.BulletID, support []int, covers []playbook.Cover) {
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
		x.link(id, e.Sample)
	}
}

// withdraw removes the support of executions whose vote was changed.
func (x *Index) withdraw(id playbook.BulletID, support []int, covers []playbook.Cover) {
	for _, i := range support {
		if i >= 0 && i < len(covers) && covers[i].Evidence != nil {
			x.unlink(id, covers[i].Evidence.Sample)
		}
	}
}

// addTask adds a task without bullets. It drops the oldest task if there are too many.
func (x *Index) addTask(e *playbook.Evidence) {
	if x.tasks == nil {
		x.tasks, x.bullets = make(map[string]*task), make(map[playbook.BulletID][]string)
	}
	for len(x.tasks) >= MaxTasks {
		x.dropTask(x.oldest[0])
		x.oldest = x.oldest[1:]
	}
	if len(x.oldest) > 2*MaxTasks { // most of them were dropped
		x.oldest = slices.DeleteFunc(slices.Clone(x.oldest), func(sample string) bool { return x.tasks[sample] == nil })
	}
	of := playbook.Evidence{Execution: e.Execution, Sample: e.Sample, Session: e.Session, Source: e.Source}
	x.tasks[e.Sample] = &task{of: of}
	x.oldest = append(x.oldest, e.Sample)
	x.words.Put(e.Sample, e.Excerpt)
}

// link lets a task support a bullet. Of too many tasks it drops the oldest.
func (x *Index) link(id playbook.BulletID, sample string) {
	t := x.tasks[sample]
	if slices.Contains(t.bullets, id) {
		return
	}
	t.bullets = append(t.bullets, id)
	list := append(x.bullets[id], sample)
	x.bullets[id] = list
	if len(list) > MaxPerBullet {
		x.unlink(id, list[0])
	}
}

// unlink removes a task from a bullet, and the task if it supports no other bullet.
func (x *Index) unlink(id playbook.BulletID, sample string) {
	t := x.tasks[sample]
	if t == nil {
		return
	}
	at := slices.Index(t.bullets, id)
	if at < 0 {
		return
	}
	t.bullets = slices.Delete(t.bullets, at, at+1)
	x.removeSample(id, sample)
	if len(t.bullets) == 0 {
		x.removeTask(sample)
	}
}

func (x *Index) removeSample(id playbook.BulletID, sample string) {
	list := x.bullets[id]
	if at := slices.Index(list, sample); at >= 0 {
		list = slices.Delete(list, at, at+1)
	}
	if x.bullets[id] = list; len(list) == 0 {
		delete(x.bullets, id)
	}
}

// drop removes a bullet.
func (x *Index) drop(id playbook.BulletID) {
	for _, sample := range slices.Clone(x.bullets[id]) {
		x.unlink(id, sample)
	}
}

// dropTask removes a task from all its bullets; it may be unknown.
func (x *Index) dropTask(sample string) {
	t := x.tasks[sample]
	if t == nil {
		return
	}
	for _, id := range t.bullets {
		x.removeSample(id, sample)
	}
	x.removeTask(sample)
}

func (x *Index) removeTask(sample string) {
	delete(x.tasks, sample)
	x.words.Drop(sample)
}

// forget removes the tasks that match a selector, as the playbook forgets them.
func (x *Index) forget(s *playbook.Selector) {
	for _, sample := range slices.Clone(x.oldest) {
		if t := x.tasks[sample]; t != nil && s.Matches(&t.of) {
			x.dropTask(sample)
		}
	}
}

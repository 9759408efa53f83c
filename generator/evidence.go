package generator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"debrief/events/deltalog"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// taskEvidence holds the past tasks that support the bullets of one playbook. It reads the log of the playbook in the
// background, from the first use on, because a playbook that fits into every prompt needs no ranking.
type taskEvidence struct {
	store  *deltalog.Store
	book   playbook.Book
	start  func()        // begins to read; called by the first ranking
	wanted chan struct{} // closed by start
	loaded chan struct{} // closed when the log was read once, or up to the pinned version

	mu          sync.RWMutex
	index       evidenceIndex
	linked      map[playbook.BulletID]bool // bullets that tasks may support
	supported   []playbook.BulletID        // bullets with the most tasks, at most maxRanked, the best first
	cited       []*citedTask               // the newest, at most maxMeasured
	reliability []float64                  // of each ranking; nil if unknown
	seq         uint64                     // of the last delta
	err         error                      // of the last read
}

func newTaskEvidence(store *deltalog.Store, b playbook.Book) *taskEvidence {
	e := &taskEvidence{
		store: store, book: b, wanted: make(chan struct{}), loaded: make(chan struct{}), linked: make(map[playbook.BulletID]bool),
	}
	e.start = sync.OnceFunc(func() { close(e.wanted) })
	return e
}

// evidencePause bounds how often new deltas are read under load. The newest tasks are rarely needed at once.
const evidencePause = time.Second

// measureShare limits the time for measuring reliability to 1/measureShare of the whole.
const measureShare = 50

// follow reads the log until ctx ends, and measures the reliability of the rankings after each read. With a pinned version it ends after
// that version. changed returns a channel that is closed at the next version; it is not used with a pinned version.
func (e *taskEvidence) follow(
	ctx context.Context, pinned *uint64, changed func() <-chan struct{}, measure func(context.Context, []*citedTask) []float64,
) {
	select {
	case <-e.wanted:
	case <-ctx.Done():
		return
	}
	wait := evidencePause
	for ctx.Err() == nil {
		var news <-chan struct{} // nil: read again after the wait
		if pinned == nil {
			news = changed() // before the read, so that a version during the read counts as news
		}
		err := e.read(ctx, pinned)
		if err == nil {
			began := time.Now()
			e.setReliability(measure(ctx, e.cited)) // only this goroutine changes cited
			if pinned != nil {
				return
			}
			wait = max(evidencePause, measureShare*time.Since(began))
		} else {
			news = nil
			wait = min(2*wait, 30*time.Second)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if news != nil {
			select {
			case <-news:
			case <-ctx.Done():
			}
		}
	}
}

// errPinned ends the reading at the pinned version.
var errPinned = errors.New("the pinned version is reached")

// read folds the deltas that are new. A long log has many tasks, so only about maxMeasured of them, those in the newest deltas, are looked up
// in the ranking by past tasks.
func (e *taskEvidence) read(ctx context.Context, pinned *uint64) error {
	type entry struct {
		delta *playbook.Delta
		cited []*citedTask
	}
	var waiting []entry // the newest deltas, with about maxMeasured tasks
	tasks := 0
	err := e.store.DeltasAfter(ctx, e.book, e.seq, func(r *deltalog.Record) error {
		if pinned != nil && r.Version > *pinned {
			return errPinned
		}
		waiting = append(waiting, entry{&r.Delta, citedTasks(&r.Delta)})
		tasks += len(waiting[len(waiting)-1].cited)
		for len(waiting) > 0 {
			// The oldest delta waits while the deltas after it have too few tasks. Deltas without any task have nothing to wait for.
			later := tasks - len(waiting[0].cited) // tasks of the deltas after the oldest one
			if tasks > 0 && later < maxMeasured {
				break
			}
			e.fold(waiting[0].delta, nil) // its own tasks, if it has any, are too old to be looked up
			tasks, waiting = later, waiting[1:]
		}
		e.seq = r.Seq
		return nil
	})
	for _, w := range waiting {
		e.fold(w.delta, w.cited)
	}
	if errors.Is(err, errPinned) {
		err = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rankSupported()
	e.err = err
	return err
}

// fold adds a delta. Before that it records whether the ranking by past tasks finds the bullets that the tasks of the delta cited.
func (e *taskEvidence) fold(d *playbook.Delta, cited []*citedTask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range cited {
		first := e.addSupported(e.index.Nearest(t.question, reliablePlaces), reliablePlaces)
		for _, id := range t.bullets {
			t.found = append(t.found, slices.ContainsFunc(first, func(r selection.Ranked) bool { return r.Bullet == id }))
		}
		e.cited = append(e.cited, t)
	}
	if n := len(e.cited); n > maxMeasured {
		e.cited = slices.Clone(e.cited[n-maxMeasured:])
	}
	e.index.Apply(d)
	for i := range d.Ops {
		op := &d.Ops[i]
		if op.Kind == playbook.Remove {
			delete(e.linked, op.Bullet)
		} else if len(op.Support) > 0 || op.Kind == playbook.Merge {
			e.linked[op.Bullet] = true
		}
	}
	for i := range d.Rejected {
		if id := d.Rejected[i].DuplicateOf; id != "" {
			e.linked[id] = true
		}
	}
}

// rankSupported orders the bullets by the number of tasks that support them.
func (e *taskEvidence) rankSupported() {
	e.supported = e.supported[:0:0]
	for id := range e.linked {
		if e.index.Count(id) > 0 {
			e.supported = append(e.supported, id)
		}
	}
	slices.SortFunc(e.supported, func(a, b playbook.BulletID) int {
		return cmp.Or(cmp.Compare(e.index.Count(b), e.index.Count(a)), cmp.Compare(a, b))
	})
	e.supported = e.supported[:min(len(e.supported), maxRanked)]
}

// setReliability stores the reliability of the rankings. After the first time the evidence counts as loaded.
func (e *taskEvidence) setReliability(all []float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reliability = all
	select {
	case <-e.loaded:
	default:
		close(e.loaded)
	}
}

// reliabilities returns the reliability of each ranking, nil if it is unknown.
func (e *taskEvidence) reliabilities() []float64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.reliability
}

// wait waits at most timeout until the log was read once.
func (e *taskEvidence) wait(ctx context.Context, timeout time.Duration) {
	e.start()
	select {
	case <-e.loaded:
		return
	default:
	}
	select {
	case <-e.loaded:
	case <-ctx.Done():
	case <-time.After(timeout):
	}
}

// applicable returns the bullets that apply to most of the tasks near the query; see minVoteShare.
func (e *taskEvidence) applicable(q *queryEmbedding) (ids []playbook.BulletID) {
	e.start()
	e.mu.RLock()
	defer e.mu.RUnlock()
	hits := slices.Clone(e.nearTasks(q))
	slices.SortFunc(hits, func(a, b evidenceHit) int {
		return cmp.Or(cmp.Compare(b.Applies, a.Applies), cmp.Compare(a.Bullet, b.Bullet))
	})
	for _, hit := range hits {
		if hit.Applies < minVoteShare || len(ids) == maxApplicable {
			break
		}
		ids = append(ids, hit.Bullet)
	}
	return ids
}

// maxApplicable is the maximum number of bullets that apply to a task by past tasks.
const maxApplicable = 32

// nearTasks returns the bullets by the votes of the tasks near a query, the best first. The caller holds mu.
func (e *taskEvidence) nearTasks(q *queryEmbedding) []evidenceHit {
	if q.byTasks == nil {
		q.byTasks = e.index.Nearest(q.text, maxRanked)
	}
	return q.byTasks
}

// count returns the number of tasks that a bullet applies to.
func (e *taskEvidence) count(id playbook.BulletID) int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.index.CountApplies(id)
}

// ranking returns the bullets that helped on tasks near the query, and then those that helped on other tasks.
func (e *taskEvidence) ranking(q *queryEmbedding, warns *warnings) selection.Ranking {
	e.mu.RLock()
	defer e.mu.RUnlock()
	select {
	case <-e.loaded:
	default:
		if e.err != nil {
			warns.add("bullets: read past tasks: %s", shortError(context.Background(), e.err))
		} else {
			warns.add("bullets: past tasks are still being read")
		}
	}
	return e.addSupported(e.nearTasks(q), maxRanked)
}

// addSupported returns up to limit bullets: first those in near, by the votes of the nearest tasks, then others by the number of tasks that
// they helped on. A task in new words may have no near task for its bullet. Then the frequency of a bullet is the best estimate, as in
// smoothing by backing off (Katz, "Estimation of probabilities from sparse data", 1987). The caller holds mu.
func (e *taskEvidence) addSupported(near []evidenceHit, limit int) selection.Ranking {
	list := make(selection.Ranking, 0, min(limit, len(near)+len(e.supported)))
	found := make(map[playbook.BulletID]bool, len(near))
	for _, hit := range near {
		if hit.Score == 0 {
			break
		}
		list = append(list, selection.Ranked{Bullet: hit.Bullet, Score: hit.Score})
		found[hit.Bullet] = true
	}
	for _, id := range e.supported {
		if len(list) >= limit {
			break
		}
		if !found[id] {
			list = append(list, selection.Ranked{Bullet: id})
		}
	}
	return list
}

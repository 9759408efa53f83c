package generator

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// taskEvidence holds the past tasks that support the bullets of one playbook. It reads the log of the playbook in the
// background, from the first use on, because a playbook that fits into every prompt needs no ranking.
type taskEvidence struct {
	store  *deltalog.Store
	book   playbook.Book
	start  func()        // lets follow begin to read; the first ranking calls it
	wanted chan struct{} // closed by start

	setLoaded func()        // closes loaded, at the first call
	loaded    chan struct{} // closed when the log was read once, or up to the pinned version

	mu        sync.RWMutex
	index     evidenceIndex
	supported []playbook.BulletID // bullets that the most tasks support, at most maxRanked, the best first
	seq       uint64              // stream sequence of the last delta
	err       error               // of the last read
}

// newTaskEvidence returns the evidence of a playbook. The caller must call follow.
func newTaskEvidence(store *deltalog.Store, b playbook.Book) *taskEvidence {
	e := &taskEvidence{store: store, book: b, wanted: make(chan struct{}), loaded: make(chan struct{})}
	e.start = sync.OnceFunc(func() { close(e.wanted) })
	e.setLoaded = sync.OnceFunc(func() { close(e.loaded) })
	return e
}

// Limits of follow.
const (
	evidencePause    = time.Second      // minimum pause between two reads, because the newest tasks are rarely needed at once
	maxEvidencePause = 30 * time.Second // maximum pause after an error
	prepareFactor    = 50               // minimum pause, as a multiple of the time that it took to prepare the rankings
)

// follow reads the log until ctx ends, and prepares the rankings after each read. With a pinned version it ends after that version, and does not
// call changed. Otherwise changed returns a channel that is closed at the next version.
func (e *taskEvidence) follow(ctx context.Context, pinned *uint64, changed func() <-chan struct{}, prepare func()) {
	select {
	case <-e.wanted:
	case <-ctx.Done():
		return
	}
	pause := evidencePause
	for ctx.Err() == nil {
		var nextVersion <-chan struct{}
		if pinned == nil {
			nextVersion = changed() // before the read, so that a version that arrives during the read is read next
		}
		if err := e.read(ctx, pinned); err != nil {
			pause = min(2*pause, maxEvidencePause)
			_ = events.Sleep(ctx, pause)
			continue
		}
		began := time.Now()
		prepare()
		e.setLoaded()
		if pinned != nil {
			return
		}
		pause = max(evidencePause, prepareFactor*time.Since(began))
		_ = events.Sleep(ctx, pause)
		select {
		case <-nextVersion:
		case <-ctx.Done():
		}
	}
}

// errPinned ends the reading at the pinned version.
var errPinned = errors.New("the pinned version is reached")

// read folds the new deltas, up to the pinned version if there is one.
func (e *taskEvidence) read(ctx context.Context, pinned *uint64) error {
	err := e.store.DeltasAfter(ctx, e.book, e.seq, func(r *deltalog.Record) error {
		if pinned != nil && r.Version > *pinned {
			return errPinned
		}
		e.fold(&r.Delta)
		e.seq = r.Seq
		return nil
	})
	if errors.Is(err, errPinned) {
		err = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rankSupported()
	e.err = err
	return err
}

// fold adds a delta to the index.
func (e *taskEvidence) fold(d *playbook.Delta) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.index.applyDelta(d)
}

// rankSupported sets supported. The caller holds mu.
func (e *taskEvidence) rankSupported() {
	ids := slices.SortedFunc(maps.Keys(e.index.links[supports]), func(a, b playbook.BulletID) int {
		return cmp.Or(cmp.Compare(e.index.Count(b), e.index.Count(a)), cmp.Compare(a, b))
	})
	e.supported = ids[:min(len(ids), maxRanked)]
}

// wait waits at most timeout until the log was read once.
func (e *taskEvidence) wait(ctx context.Context, timeout time.Duration) {
	e.start()
	select {
	case <-e.loaded:
	case <-ctx.Done():
	case <-time.After(timeout):
	}
}

// applicable returns the bullets that apply to many of the tasks near the query, the best first; see minVoteShare.
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

// maxApplicable is the maximum length of the result of applicable.
const maxApplicable = 32

// nearTasks returns the bullets that the tasks near a query vote for, the best first. The caller holds mu.
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

// addSupported returns up to limit bullets. First come those in near that a task supports, then others by the number of tasks that support them. A
// task in new words may have no near task for its bullet. Then the frequency of a bullet is the best estimate, as in
// smoothing by backing off (Katz, "Estimation of probabilities from sparse data", 1987). The caller holds mu.
func (e *taskEvidence) addSupported(near []evidenceHit, limit int) selection.Ranking {
	list := make(selection.Ranking, 0, min(limit, len(near)+len(e.supported)))
	found := make(map[playbook.BulletID]bool, len(near))
	for _, hit := range near {
		if hit.Score == 0 { // this bullet and those after it only apply to near tasks
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

package generator

import (
	"context"
	"errors"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/evidence"
)

// taskEvidence holds the past tasks that support the bullets of one playbook. It reads the log of the playbook in the
// background, from the first use on, because a playbook that fits into every prompt needs no ranking.
type taskEvidence struct {
	store  *deltalog.Store
	book   playbook.Book
	start  func()        // begins to read; called by the first ranking
	wanted chan struct{} // closed by start
	loaded chan struct{} // closed when the log was read once, or up to the pinned version

	mu    sync.RWMutex
	index evidence.Index
	seq   uint64 // of the last delta
	err   error  // of the last read
}

func newTaskEvidence(store *deltalog.Store, b playbook.Book) *taskEvidence {
	e := &taskEvidence{store: store, book: b, wanted: make(chan struct{}), loaded: make(chan struct{})}
	e.start = sync.OnceFunc(func() { close(e.wanted) })
	return e
}

// evidencePause bounds how often new deltas are read under load. The newest tasks are rarely needed at once.
const evidencePause = time.Second

// follow reads the log until ctx ends. With a pinned version it reads up to that version. changed returns a channel that
// is closed at the next version.
func (e *taskEvidence) follow(ctx context.Context, pinned *uint64, changed func() <-chan struct{}) {
	select {
	case <-e.wanted:
	case <-ctx.Done():
		return
	}
	wait := evidencePause
	for ctx.Err() == nil {
		var news <-chan struct{}
		if pinned == nil {
			news = changed()
		}
		err := e.read(ctx, pinned)
		if err == nil {
			if pinned != nil {
				return
			}
			wait = evidencePause
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

// read folds the deltas that are new.
func (e *taskEvidence) read(ctx context.Context, pinned *uint64) error {
	err := e.store.DeltasAfter(ctx, e.book, e.seq, func(r *deltalog.Record) error {
		if pinned != nil && r.Version > *pinned {
			return errPinned
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.index.Apply(&r.Delta)
		e.seq = r.Seq
		return nil
	})
	if errors.Is(err, errPinned) {
		err = nil
	}
	e.mu.Lock()
	e.err = err
	e.mu.Unlock()
	if err == nil {
		select {
		case <-e.loaded:
		default:
			close(e.loaded)
		}
	}
	return err
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

// applicable returns the bullets that the tasks near the query support most; see minVoteShare.
func (e *taskEvidence) applicable(query string) (ids []playbook.BulletID) {
	e.start()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, hit := range e.index.Nearest(query, events.MaxExposures) {
		if hit.Score >= minVoteShare {
			ids = append(ids, hit.Bullet)
		}
	}
	return ids
}

// count returns the number of tasks that support a bullet.
func (e *taskEvidence) count(id playbook.BulletID) int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.index.Count(id)
}

// ranking returns the bullets that helped on tasks near the query.
func (e *taskEvidence) ranking(query string, warns *warnings) (list selection.Ranking) {
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
	for _, hit := range e.index.Nearest(query, maxRanked) {
		list = append(list, selection.Ranked{Bullet: hit.Bullet, Score: hit.Score})
	}
	return list
}

package generator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/history"
)

// playbookCache holds the playbooks of recent tasks. It follows the newest versions and keeps pinned old versions.
type playbookCache struct {
	store      *deltalog.Store
	embeddings *embeddingCache
	votes      bool          // prompts show votes
	retry      time.Duration // delay before the next call after an embedder error

	ctx     context.Context // of all followers
	stop    context.CancelFunc
	running sync.WaitGroup // one goroutine for each entry

	mu      sync.Mutex
	entries map[playbookKey]*cachedPlaybook
}

// playbookKey identifies an entry: the followed playbook, or one pinned version of it.
type playbookKey struct {
	book    playbook.Book
	pinned  bool
	version uint64 // the pinned version, else 0
	forgot  uint64 // the last version that forgot executions, if pinned, else 0: the pinned version is read without these executions
}

// Limits of the cache. Beyond them the least recently used entry is evicted.
const (
	maxPlaybooks = 128
	maxPinned    = 32
)

// cachedPlaybook is a playbook with its index: the newest version, which a follower updates, or a pinned version. The state of a pinned version
// stays the same, but its index has only the texts that the newest version still admits.
type cachedPlaybook struct {
	index *playbookIndex
	tasks *taskEvidence
	stop  context.CancelFunc

	lastUsed time.Time // guarded by playbookCache.mu

	ready chan struct{} // closed when loading has succeeded or failed; follower, state and err are valid then

	follower *deltalog.Follower // nil for a pinned version, and after an error
	state    *playbook.Playbook // of a pinned version, else nil
	err      error

	admitting  sync.Mutex         // guards admitted and admittedAt, which only a pinned version has
	admitted   *playbook.Playbook // the playbook in the index; nil before the first use
	admittedAt uint64             // newest version when admitted was computed
}

func newPlaybookCache(store *deltalog.Store, embeddings *embeddingCache, votes bool, retry time.Duration) *playbookCache {
	ctx, stop := context.WithCancel(context.Background())
	return &playbookCache{
		store: store, embeddings: embeddings, votes: votes, retry: retry, ctx: ctx, stop: stop,
		entries: make(map[playbookKey]*cachedPlaybook),
	}
}

// close stops all followers and waits for them.
func (c *playbookCache) close() {
	c.mu.Lock() // no entry starts after this
	c.stop()
	c.mu.Unlock()
	c.running.Wait()
}

// get returns a playbook at the newest version. It waits until the playbook is loaded.
func (c *playbookCache) get(ctx context.Context, name playbook.Book) (*cachedPlaybook, error) {
	return c.load(ctx, playbookKey{book: name})
}

// pinned returns an old version of a playbook with the texts that the newest version still admits.
func (c *playbookCache) pinned(ctx context.Context, newest *cachedPlaybook, name playbook.Book, version uint64) (*cachedPlaybook, error) {
	key := playbookKey{book: name, pinned: true, version: version}
	newest.follower.Read(func(now *playbook.Playbook, _ []byte) {
		admission := now.Admission()
		key.forgot = admission.LastForgotten()
	})
	entry, err := c.load(ctx, key)
	if err == nil {
		newest.follower.Read(func(now *playbook.Playbook, _ []byte) { entry.admit(now) })
	}
	return entry, err
}

// admit changes the index of a pinned version to the texts that the newest version, now, admits.
func (p *cachedPlaybook) admit(now *playbook.Playbook) {
	p.admitting.Lock()
	defer p.admitting.Unlock()
	if p.admitted != nil && p.admittedAt >= now.Version() {
		return
	}
	admitted := admit.Pinned(p.state, now)
	p.admittedAt = now.Version()
	if p.admitted != nil && admitted.Checksum() == p.admitted.Checksum() {
		return
	}
	p.admitted = admitted
	p.index.mu.Lock()
	defer p.index.mu.Unlock()
	p.index.update(admitted)
}

// load returns the entry of a key. It waits until the entry is loaded.
func (c *playbookCache) load(ctx context.Context, key playbookKey) (*cachedPlaybook, error) {
	entry, err := c.getOrAdd(key)
	if err != nil {
		return nil, err
	}
	select {
	case <-entry.ready:
		return entry, entry.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errClosed = errors.New("context builder: closed")

// getOrAdd returns the entry of a key. It starts loading a new entry.
func (c *playbookCache) getOrAdd(key playbookKey) (*cachedPlaybook, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, errClosed
	}
	entry := c.entries[key]
	if entry == nil {
		c.evict(key.pinned)
		ctx, stop := context.WithCancel(c.ctx)
		entry = &cachedPlaybook{index: newPlaybookIndex(c.embeddings, c.votes, c.retry), tasks: newTaskEvidence(c.store, key.book), stop: stop, ready: make(chan struct{})}
		c.entries[key] = entry
		c.running.Go(func() { c.follow(ctx, entry, key) })
	}
	entry.lastUsed = time.Now()
	return entry, nil
}

// evict removes the least recently used entries while the cache is full. It counts followed and pinned entries
// separately. A caller that holds an evicted entry can still use it. Entries that are being loaded stay: otherwise
// concurrent callers could evict the entries of each other forever.
func (c *playbookCache) evict(pinned bool) {
	limit := maxPlaybooks
	if pinned {
		limit = maxPinned
	}
	n := 0
	var loaded []playbookKey
	for key, entry := range c.entries {
		if key.pinned != pinned {
			continue
		}
		n++
		select {
		case <-entry.ready:
			loaded = append(loaded, key)
		default:
		}
	}
	if n < limit {
		return
	}
	slices.SortFunc(loaded, func(a, b playbookKey) int { return c.entries[a].lastUsed.Compare(c.entries[b].lastUsed) })
	surplus := n - limit + 1 // with a place for the new entry
	for _, key := range loaded[:min(len(loaded), surplus)] {
		c.entries[key].stop()
		delete(c.entries, key)
	}
}

// follow loads an entry. Until ctx ends, it then keeps the entry up to date, reads its past tasks and embeds its bullets. If loading fails, it
// removes the entry, so that the next caller tries again.
func (c *playbookCache) follow(ctx context.Context, entry *cachedPlaybook, key playbookKey) {
	defer entry.stop()
	waitStopped := func() {} // waits for the follower
	if key.pinned {
		entry.state, entry.err = c.stateAt(ctx, key)
	} else {
		entry.follower, waitStopped, entry.err = c.store.Follow(ctx, key.book)
	}
	if entry.err != nil {
		if ctx.Err() != nil {
			entry.err = errClosed
		}
		c.mu.Lock()
		if c.entries[key] == entry {
			delete(c.entries, key)
		}
		c.mu.Unlock()
		close(entry.ready)
		return
	}
	close(entry.ready)
	var reading sync.WaitGroup
	reading.Go(func() {
		if key.pinned {
			entry.tasks.follow(ctx, &key.version, nil, entry.prepare)
		} else {
			entry.tasks.follow(ctx, nil, entry.follower.Changed, entry.prepare)
		}
	})
	entry.index.queue.run(ctx)
	reading.Wait()
	waitStopped()
}

// stateAt reads a pinned version, without the executions that were forgotten since.
func (c *playbookCache) stateAt(ctx context.Context, key playbookKey) (*playbook.Playbook, error) {
	if key.forgot == 0 {
		return c.store.PlaybookAt(ctx, key.book, key.version)
	}
	state, newest, err := history.StateAt(c.store.History(ctx, key.book), key.version)
	if _, ok := errors.AsType[*history.VersionNotFoundError](err); ok {
		err = &deltalog.VersionError{Book: key.book, Version: key.version, Newest: newest}
	}
	return state, err
}

// waitVersion waits at most timeout for a version. It reports stale if the version is not available by then.
func (p *cachedPlaybook) waitVersion(ctx context.Context, version uint64, timeout time.Duration) (stale bool, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if p.follower.Wait(limited, version) == nil {
		return false, nil
	}
	return true, ctx.Err()
}

// withIndex calls fn with the index. The index of a followed playbook is first updated to the newest version. It does not change during the call.
func (p *cachedPlaybook) withIndex(fn func(*playbookIndex) error) error {
	ix := p.index
	ix.mu.RLock()
	if p.follower != nil && ix.version != p.follower.Version() {
		ix.mu.RUnlock()
		ix.mu.Lock()
		p.follower.Read(func(state *playbook.Playbook, _ []byte) {
			if state.Version() != ix.version { // else another caller has updated the index
				ix.update(state)
			}
		})
		ix.mu.Unlock()
		ix.mu.RLock() // a version that arrived after the update is left to the next call
	}
	defer ix.mu.RUnlock()
	return fn(ix)
}

// admission returns the settings of the playbook, and the state that decides which executions a prompt may contain.
func (p *cachedPlaybook) admission() (a playbook.Admission) {
	_ = p.withIndex(func(ix *playbookIndex) error {
		a = ix.notes.Admission()
		return nil
	})
	return a
}

// prepare prepares the ranking by conditions at the newest version. The goroutine of taskEvidence.follow calls it. Only this goroutine changes the
// past tasks, so prepare reads them without a lock.
func (p *cachedPlaybook) prepare() {
	_ = p.withIndex(func(ix *playbookIndex) error {
		ix.conditionRanker.Store(ix.conditions.NewUnnamed(&p.tasks.index.words, p.tasks.index.bullets()))
		return nil
	})
}

// waitEvidence waits for the past tasks if a prompt needs them, because the playbook does not fit or the scores are requested. It waits for at most
// loadTimeout, and for a pinned version for at most timeout, because the same version must give the same prompt.
func (p *cachedPlaybook) waitEvidence(ctx context.Context, req *contextRequest, timeout time.Duration) {
	l := req.limits
	p.index.mu.RLock()
	fits := p.index.bullets.Tokens() <= l.Bullets && (l.MaxBullets <= 0 || p.index.bullets.Len() <= l.MaxBullets)
	p.index.mu.RUnlock()
	if fits && !req.explain {
		return
	}
	if req.pinnedVersion == nil {
		timeout = min(timeout, loadTimeout)
	}
	p.tasks.wait(ctx, timeout)
}

// versionLag is Generator.VersionLag for the followed playbooks in the cache.
func (c *playbookCache) versionLag(ctx context.Context) (uint64, error) {
	known := make(map[playbook.Book]uint64)
	c.mu.Lock()
	for key, entry := range c.entries {
		if key.pinned {
			continue
		}
		select {
		case <-entry.ready:
			if entry.follower != nil { // loaded without error
				known[key.book] = entry.follower.Version()
			}
		default:
		}
	}
	c.mu.Unlock()
	return c.store.MaxViewLag(ctx, known)
}
